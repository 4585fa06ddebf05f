"""Cancelling jobs that run: by the store's mark, whatever kind of code it is, and whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.queues.rig import Rig, until
from workfleet.model.jobs import JobState
from workfleet.queues.canceller import Canceller


async def _cancelling(rig: Rig) -> asyncio.Task[None]:
    canceller = Canceller(
        rig.store.jobs, rig.exchange.claims, rig.exchange.cancel, poll_ms=rig.poll_ms, clock=rig.clock
    )
    return asyncio.create_task(canceller.serve())


async def test_a_coroutine_is_ended_at_once(rig: Rig) -> None:
    ended = []

    async def waits(_job: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("finally")

    rig.on(waits)
    async with rig:
        cancelling = await _cancelling(rig)
        job_id = await rig.enqueue("waits")
        await until(lambda: rig.exchange.active == 1)
        assert await rig.store.jobs.cancel([job_id]) == ["asked"]
        record = await rig.finished(job_id)
        assert await rig.store.jobs.cancel([job_id]) == ["finished"]
        await until(lambda: rig.exchange.totals == {"failed": 1})
        cancelling.cancel()
    assert ended == ["finally"]
    assert (record.state, record.outcome, record.attempts_made) == (JobState.FAILED, "cancelled", 1)
    assert record.failure is not None
    assert record.failure.message == "somebody has cancelled it"


async def test_a_thread_is_asked_and_its_job_is_never_tried_again(rig: Rig) -> None:
    going = threading.Event()

    def works(job: Any) -> None:
        going.set()
        while not job.cancelled:
            threading.Event().wait(0.001)
        raise OSError("stopped half-way")

    rig.on(works)
    async with rig:
        cancelling = await _cancelling(rig)
        job_id = await rig.enqueue("works")
        await until(going.is_set)
        assert await rig.store.jobs.cancel([job_id]) == ["asked"]
        record = await rig.finished(job_id)
        cancelling.cancel()
    assert (record.outcome, record.attempts_made) == ("cancelled", 1)
    assert record.failure is not None
    assert record.failure.message == "stopped half-way"


async def test_a_run_that_comes_through_all_the_same_has_completed(rig: Rig) -> None:
    async def stubborn(_job: Any) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
        return "done"

    rig.on(stubborn)
    async with rig:
        cancelling = await _cancelling(rig)
        job_id = await rig.enqueue("stubborn")
        await until(lambda: rig.exchange.active == 1)
        await rig.store.jobs.cancel([job_id])
        record = await rig.finished(job_id)
        cancelling.cancel()
    assert (record.state, record.result) == (JobState.COMPLETED, b'"done"')


async def test_a_mark_that_the_worker_has_not_seen_keeps_the_job_from_running_again(rig: Rig) -> None:
    """The run failed and was put back before its worker learned of the cancellation: the next claim ends the job."""
    runs = []
    marked = asyncio.Event()

    async def fails(job: Any) -> None:
        runs.append(job.attempt)
        await marked.wait()
        raise OSError("no")

    rig.on(fails)
    async with rig:
        job_id = await rig.enqueue("fails")
        await until(lambda: runs)
        assert await rig.store.jobs.cancel([job_id]) == ["asked"]
        marked.set()
        record = await rig.finished(job_id)
    assert runs == [1]
    assert (record.outcome, record.state) == ("cancelled", JobState.FAILED)


@pytest.mark.parametrize("delay_ms", [0, 3_600_000])
async def test_while_no_worker_runs(rig: Rig, delay_ms: int) -> None:
    async def never(_job: Any) -> None:
        raise AssertionError("it was cancelled")

    rig.on(never)
    job_id = await rig.enqueue("never", delay_ms=delay_ms)
    assert await rig.store.jobs.cancel([job_id, "nobody"]) == ["cancelled", "missing"]
    async with rig:
        record = await rig.finished(job_id)
        await until(rig.exchange.stands_still)
    assert (record.outcome, record.attempts_made) == ("cancelled", 0)
