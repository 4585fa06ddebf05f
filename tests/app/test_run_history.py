"""`Schedules.history`: a whole worker writes what became of runs of schedules, and nothing breaks with its ledger."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

from tests.app.working import Worker, until
from workfleet import App, Fail, Job, Module, NewJob, NotFound, PastRun, SchedulerModule, Schedules, UsageError
from workfleet.events import LedgerDropped, StoreTrouble
from workfleet.model.ledger import LedgerKeep, LedgerRow
from workfleet.stores.sqlite.scripts import THIRD
from workfleet.testing import Fleet

pytestmark = pytest.mark.usefixtures("project")
TOLD = "writing the run ledger"


def shop(scheduler: Module | None = None) -> App:
    app = App("shop", modules=[] if scheduler is None else [scheduler])

    @app.schedule("tick", every="1d", attempts=2, backoff="1ms")
    async def tick(job: Job[None]) -> None:
        if job.attempt == 1:
            raise ValueError("not yet")

    @app.schedule("fails", every="1d")
    async def fails() -> None:
        raise Fail("no way")

    return app


def outcomes(runs: list[PastRun]) -> list[str]:
    """Oldest first."""
    return [run.outcome for run in runs][::-1]


async def written(worker: Worker, name: str, count: int) -> list[PastRun]:
    """A schedule's runs when there are so many, the newest first."""
    schedules = await worker.get(Schedules)
    async with asyncio.timeout(15):
        while len(found := await schedules.history(name)) < count:
            await asyncio.sleep(0.01)
    return found


async def test_each_attempt_of_each_run_is_told() -> None:
    async with Worker(shop(), heartbeat_enabled=False) as worker:
        triggered = await (await worker.get(Schedules)).trigger("tick")
        second, first = await written(worker, "tick", 2)
        (failed,) = await triggered_and_written(worker, "fails")
        assert triggered.ref is not None
        attempts = (await triggered.ref.record()).history
    assert (first.outcome, first.attempt, first.error) == ("failed", 1, "ValueError: not yet")
    assert (second.outcome, second.attempt, second.error) == ("completed", 2, None)
    for run in (first, second):
        assert (run.schedule, run.slot, run.worker, run.job_id) == ("tick", None, "w1", triggered.ref.id)
        assert run.started is not None
        assert run.ended is not None
        assert run.duration == run.ended - run.started
        assert timedelta() <= run.duration < timedelta(seconds=10)
        assert abs(run.ended - datetime.now(UTC)) < timedelta(minutes=1)
    # As the job itself says.
    told = [(ms(run.started), ms(run.ended)) for run in (first, second)]
    assert told == [(attempt.started_ms, attempt.ended_ms) for attempt in attempts]
    assert (failed.outcome, failed.error) == ("failed", "no way")


def ms(instant: datetime | None) -> int:
    assert instant is not None
    return round(instant.timestamp() * 1000)


async def triggered_and_written(worker: Worker, name: str) -> list[PastRun]:
    await (await worker.get(Schedules)).trigger(name)
    return await written(worker, name, 1)


async def test_what_ended_last_is_written_before_the_process_ends(tmp_path: Path) -> None:
    app, url = App("shop"), f"sqlite:///{tmp_path}/jobs.db"

    @app.schedule("tick", every="1d", run_on_start=True)
    async def tick() -> None: ...

    async with Worker(app, store=url, heartbeat_enabled=False) as worker:
        await until(lambda: worker.runtime.exchange.totals["completed"] == 1)
    async with Worker(App("shop"), store=url, heartbeat_enabled=False) as worker:
        # Its code is gone, and its history is not.
        assert outcomes(await (await worker.get(Schedules)).history("tick")) == ["completed"]


async def test_a_broken_ledger_breaks_no_run_and_goes_on_when_it_is_mended(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    async with Worker(shop(), store=f"sqlite:///{path}", heartbeat_enabled=False) as worker:
        db = apsw.Connection(str(path))
        db.set_busy_timeout(10_000)
        db.execute("DROP TABLE wf_ledger")
        schedules = await worker.get(Schedules)
        for number in range(1, 4):
            await until(lambda: worker.runtime.exchange.active == 0)
            triggered = await schedules.trigger("tick")
            assert triggered.ref is not None
            await triggered.ref.result(timeout="15s")
            await until(lambda number=number: worker.runtime.exchange.totals["completed"] == number)
        await until(lambda: [t for t in worker.told(StoreTrouble) if t.what == TOLD])
        for _ in db.execute(THIRD):
            pass
        db.close()
        runs = await written(worker, "tick", 6)
    assert outcomes(runs) == ["failed", "completed"] * 3
    # Told once, not once a run.
    assert len([trouble for trouble in worker.told(StoreTrouble) if trouble.what == TOLD]) == 1
    assert worker.told(LedgerDropped) == []


async def test_rows_that_cannot_be_written_by_the_end_are_told(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    async with Worker(shop(), store=f"sqlite:///{path}", heartbeat_enabled=False) as worker:
        db = apsw.Connection(str(path))
        db.set_busy_timeout(10_000)
        db.execute("DROP TABLE wf_ledger")
        db.close()
        await (await worker.get(Schedules)).trigger("fails")
        await until(lambda: worker.runtime.exchange.totals["failed"] == 1)
    assert [dropped.count for dropped in worker.told(LedgerDropped)] == [1]
    assert worker.stopped is not None
    assert worker.stopped.refused == ()


async def test_so_many_are_kept_as_the_settings_say() -> None:
    async with Worker(shop(SchedulerModule(history_count=1)), heartbeat_enabled=False) as worker:
        await (await worker.get(Schedules)).trigger("tick")
        await until(lambda: worker.runtime.exchange.totals["completed"] == 1)
        while outcomes(await written(worker, "tick", 1)) != ["completed"]:
            await asyncio.sleep(0.01)
        assert len(await (await worker.get(Schedules)).history("tick")) == 1


async def test_a_count_of_0_writes_no_ledger() -> None:
    async with Worker(shop(SchedulerModule(history_count=0)), heartbeat_enabled=False) as worker:
        await (await worker.get(Schedules)).trigger("fails")
        await until(lambda: worker.runtime.exchange.totals["failed"] == 1)
        assert worker.runtime.aftermath.services == []
        assert await (await worker.get(Schedules)).history("fails") == []


async def test_what_is_too_old_is_pruned_at_the_start(tmp_path: Path) -> None:
    url, now = f"sqlite:///{tmp_path}/jobs.db", datetime.now(UTC).timestamp() * 1000
    old = [
        LedgerRow(id=f"{hours}", at_ms=round(now - hours * 3_600_000), schedule="gone", outcome="completed")
        for hours in (1, 3)
    ]
    async with Worker(App("shop"), store=url, heartbeat_enabled=False) as worker:
        await worker.store.ledger.record(old, LedgerKeep(age_ms=10**9, count=10))
    async with Worker(shop(SchedulerModule(history_age="2h")), store=url, heartbeat_enabled=False) as worker:
        async with asyncio.timeout(15):
            while len(await worker.store.ledger.history("gone")) == 2:
                await asyncio.sleep(0.01)
        assert [row.id for row in await worker.store.ledger.history("gone")] == ["1"]


async def test_in_a_fleet_slots_and_skips_are_there_when_it_is_idle() -> None:
    app = App("shop")

    @app.schedule("slow", every="1h")
    async def slow() -> None:
        await app_clock.sleep(3_600 + 60)

    async with Fleet(app, now="2027-03-27T12:00Z") as fleet:
        app_clock = fleet.clock
        await fleet.travel("3h")
        runs = await fleet.schedules.history("slow")
    assert outcomes(runs) == ["skipped", "completed"]
    completed, skipped = runs
    assert (completed.slot, completed.duration) == (
        datetime(2027, 3, 27, 13, tzinfo=UTC),
        timedelta(hours=1, minutes=1),
    )
    assert skipped.slot == datetime(2027, 3, 27, 14, tzinfo=UTC)
    assert skipped.error == f"its run {completed.job_id} is not finished"
    assert (skipped.attempt, skipped.started, skipped.ended, skipped.job_id) == (None, None, None, None)


async def test_a_queued_job_of_a_schedule_is_no_run_of_it() -> None:
    app = App("shop")

    @app.handler("work", queue="work")
    async def work(job: Job[int]) -> None: ...

    @app.schedule("feed", every="1h")
    async def feed() -> list[NewJob[int]]:
        return [work.job(n) for n in range(3)]

    async with Fleet(app, now="2027-03-27T12:30Z") as fleet:
        await fleet.travel("1h")
        assert outcomes(await fleet.schedules.history("feed")) == ["completed"]


async def test_unknown_names_and_senseless_limits_are_refused() -> None:
    async with Fleet(shop()) as fleet:
        with pytest.raises(NotFound, match=r"there is no schedule 'tock'\. Known schedules: fails, tick"):
            await fleet.schedules.history("tock")
        with pytest.raises(UsageError, match="limit=0: ask for one run at least"):
            await fleet.schedules.history("tick", limit=0)
        assert await fleet.schedules.history("tick") == []
