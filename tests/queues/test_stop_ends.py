"""What fails while it is being stopped has not failed."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.queues.rig import Rig, until
from workfleet.model.jobs import JobState


async def test_a_clean_up_that_raises_at_the_stop_costs_no_attempt(rig: Rig) -> None:
    going = asyncio.Event()

    async def stumbles(_job: Any) -> None:
        going.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("the connection was closed before")

    rig.on(stumbles)
    async with rig:
        job_id = await rig.enqueue("stumbles")
        await going.wait()
        assert await rig.exchange.drain(0.01) == 1
        record = await rig.record(job_id)
    assert (record.state, record.attempts_made, record.outcome) == (JobState.WAITING, 0, "given_back")


async def test_a_run_that_somebody_cancels_before_it_began_goes_back_and_runs(rig: Rig) -> None:
    """User code can cancel every task of the loop: a task that never began cannot settle its job."""
    ran, cancelled = [], []

    async def once(job: Any) -> None:
        ran.append(job.id)

    rig.on(once)
    loop = asyncio.get_running_loop()
    create = loop.create_task

    def hostile(coroutine: Any, **named: Any) -> Any:
        task = create(coroutine, **named)
        if named.get("name") == "once" and not cancelled:
            cancelled.append(task.cancel())
        return task

    loop.create_task = hostile  # type: ignore[method-assign]
    async with rig:
        job_id = await rig.enqueue("once")
        record = await rig.finished(job_id)
        await until(lambda: rig.exchange.totals == {"given_back": 1, "completed": 1})
    assert (cancelled, ran, record.attempts_made) == ([True], [job_id], 1)
