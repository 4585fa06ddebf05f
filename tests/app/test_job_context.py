"""`JobContext`: what lives as long as one run learns of the run, without a job passed along."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from dishka import Provider, Scope, provide

from tests.app.working import start_problems
from workfleet import App, Job, JobContext, testing
from workfleet.testing import Fleet

pytestmark = pytest.mark.usefixtures("project")


class Auditor:
    """One for each run."""

    def __init__(self, context: JobContext) -> None:
        self.context = context

    async def note(self, text: str) -> str:
        self.context.log(f"{text} by {self.context.name}")
        await self.context.progress({"noted": text})
        return f"{self.context.id} {self.context.attempt}/{self.context.max_attempts}"


class Auditing(Provider):
    auditor = provide(Auditor, scope=Scope.REQUEST)


app = App("shop", providers=[Auditing()])


@app.handler(queue="q", attempts=2, timeout="30s")
async def work(job: Job[str], auditor: Auditor) -> str:
    return await auditor.note(job.data)


@app.handler(queue="q")
def in_thread(job: Job[None], context: JobContext) -> dict[str, Any]:
    return {
        "same": [context.id == job.id, context.queue == job.queue, context.tags == job.tags],
        "facts": [context.queue, context.group, context.trace, context.schedule, context.slot, context.deadline],
        "metadata": dict(context.metadata),
        "cancelled": context.cancelled,
    }


@app.schedule("tick", every="1h")
async def tick(auditor: Auditor, context: JobContext) -> list[Any]:
    return [await auditor.note("tick"), context.schedule, context.slot == datetime(2027, 1, 1, 1, tzinfo=UTC)]


async def test_an_object_of_one_run_knows_which() -> None:
    async with Fleet(app) as fleet:
        refs = [await fleet.enqueue(work.job(text)) for text in ("a", "b")]
        await fleet.run_until_idle()
        assert [await ref.result() for ref in refs] == [f"{ref.id} 1/2" for ref in refs]
        record = await refs[0].record()
        assert record.progress == b'{"noted":"a"}'
        assert await fleet.jobs.logs(refs[0].id) == ["a by work"]


async def test_a_handler_in_a_thread_and_a_scheduled_function_take_it() -> None:
    async with Fleet(app) as fleet:
        ref = await fleet.enqueue(in_thread.job(tags=["t"], metadata={"k": "v"}, group="gold"))
        await fleet.run_until_idle()
        assert await ref.result() == {
            "same": [True, True, True],
            "facts": ["q", "gold", None, None, None, None],
            "metadata": {"k": "v"},
            "cancelled": False,
        }
        await fleet.travel("1h")
        (run,) = [job for job in await fleet.jobs.list(queue="shop-schedules") if job.schedule == "tick"]
        assert await fleet.jobs.logs(run.id) == ["tick by tick"]
        assert run.result == f'["{run.id} 1/1","tick",true]'.encode()


async def test_what_lives_as_long_as_the_process_cannot_take_it() -> None:
    class Leak:
        def __init__(self, context: JobContext) -> None: ...

    leaking = Provider(scope=Scope.APP)
    leaking.provide(Leak)
    found = await start_problems(App("x", providers=[leaking]))
    assert found == {
        "injection": f"{Leak.__qualname__} -> JobContext: JobContext lives for one job, {Leak.__qualname__} as long as "
        "the process: take it as a parameter of the method"
    }


async def test_in_a_unit_test() -> None:
    job = testing.job(None, id="7", attempt=2, tags=["t"])
    context = JobContext(job)
    assert await Auditor(context).note("x") == "7 2/3"
    assert testing.said(job).lines == ["x by test"]
    assert repr(context) == "JobContext('test', id='7', attempt=2)"
