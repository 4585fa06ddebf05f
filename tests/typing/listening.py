"""(7) Listeners, and what became of the runs of schedules."""

from datetime import datetime, timedelta

from workfleet import App, Module, PastRun, RunEvent, SchedulerModule, Schedules

alerts = Module("alerts")


@alerts.listener("failure", "miss", timeout="5s")
async def tell(event: RunEvent, schedules: Schedules) -> None:
    if event.schedule is not None:
        runs: list[PastRun] = await schedules.history(event.schedule, limit=5)
        print([said(run) for run in runs])


@alerts.listener("start", timeout=timedelta(seconds=1))
def count(event: RunEvent) -> None:
    at: datetime | None = event.slot
    print(event.kind == "start", at, event.attempt, event.count)


def said(run: PastRun) -> str:
    took: timedelta | None = run.duration
    return f"{run.outcome} {took} {run.error or ''}"


app = App("alerting", modules=[alerts, SchedulerModule(history_age="90d", history_count=1_000)])
