"""The exchange's graceful stop: jobs end, what does not is given back, threads keep their place."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

from tests.queues.gates import Asking, gated
from tests.queues.rig import FaultyJobs, Rig, until
from workfleet.errors import Fail, Retry
from workfleet.events import JobSettled
from workfleet.model.jobs import JobState
from workfleet.ports.stores import Store


async def test_drain_lets_jobs_end_and_claims_no_more(rig: Rig) -> None:
    rig.concurrency = {"q": 1}
    gate = gated(rig)
    async with rig:
        ids = await rig.enqueue_many(["wait", "wait"])
        await until(lambda: gate.inside["q"] == 1)
        draining = asyncio.create_task(rig.exchange.drain(10))
        await asyncio.sleep(0)  # it has begun
        gate.open.set()
        assert await draining == 0
    assert sorted([(await rig.record(job_id)).state for job_id in ids]) == [JobState.COMPLETED, JobState.WAITING]


async def test_drain_gives_back_what_does_not_end_and_counts_no_attempt(rig: Rig) -> None:
    begun, cleaned = asyncio.Event(), list[str]()

    async def long(job: Any) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            cleaned.append(job.id)

    rig.on(long)
    async with rig:
        job_id = await rig.enqueue("long")
        await begun.wait()
        assert await rig.exchange.drain(0.01) == 1
        assert rig.exchange.active == 0
    record = await rig.record(job_id)
    assert (record.state, record.attempts_made, record.crashes, record.history) == (JobState.WAITING, 0, 0, ())
    assert cleaned == [job_id]


async def test_drain_waits_for_a_claim_that_is_on_its_way_and_gives_it_back(store: Store) -> None:
    """Without that, the job would stay active until its lease is over, and count as crashed."""
    jobs = Asking(store.jobs)
    rig = Rig(store, jobs=jobs)
    gate = gated(rig)
    jobs.answer.clear()
    async with rig:
        job_id = await rig.enqueue("wait")
        await jobs.claimed.wait()
        draining = asyncio.create_task(rig.exchange.drain(10))
        await asyncio.sleep(0)  # it has begun
        assert not draining.done()
        jobs.answer.set()
        assert await draining == 1
    record = await rig.record(job_id)
    assert (record.state, record.attempts_made, gate.most["q"]) == (JobState.WAITING, 0, 0)


async def test_drain_asks_threads_and_settles_what_ends_in_time(rig: Rig) -> None:
    began: list[str] = []

    def patient(job: Any) -> str:
        began.append(job.name)
        while not job.cancelled:
            time.sleep(0.001)
        if job.name == "finishes":
            return "in time"
        raise Fail("no") if job.name == "fails" else Retry("stopped half-way")

    for name in ("finishes", "stops", "fails"):
        rig.on(patient, name=name)
    async with rig:
        ids = await rig.enqueue_many(["finishes", "stops", "fails"])
        await until(lambda: len(began) == 3)
        assert await rig.exchange.drain(0.01) == 1
    finishes, stops, fails = [await rig.record(job_id) for job_id in ids]
    assert (finishes.state, finishes.result) == (JobState.COMPLETED, b'"in time"')
    assert (stops.state, stops.attempts_made) == (JobState.WAITING, 0)  # what stopped as asked has not failed
    assert (fails.state, fails.outcome) == (JobState.FAILED, "failed")


async def test_a_thread_that_does_not_end_stays_on_the_board(rig: Rig) -> None:
    """Only the end of this process may give its job back, or it would run twice at a time."""
    began, go_on = threading.Event(), threading.Event()

    def deaf(_job: Any) -> None:
        began.set()
        go_on.wait(10)

    rig.on(deaf)
    async with rig:
        job_id = await rig.enqueue("deaf")
        await until(began.is_set)
        started = time.monotonic()
        assert await rig.exchange.drain(0.01) == 0
        assert time.monotonic() - started < 2
        assert rig.exchange.active == 1
        assert [claim.job_id for claim in rig.board.notes.values()] == [job_id]
        assert (await rig.record(job_id)).state is JobState.ACTIVE
    go_on.set()


async def test_a_result_that_came_just_before_the_stop_is_kept(store: Store) -> None:
    """The run has ended and only its log is being written when the drain cancels it."""

    class SlowLog(FaultyJobs):
        writing = asyncio.Event()
        go_on = asyncio.Event()

        async def report(self, *args: Any, **kwargs: Any) -> Any:
            self.writing.set()
            await self.go_on.wait()
            return await store.jobs.report(*args, **kwargs)

    jobs = SlowLog(store.jobs, lambda *_: None)
    rig = Rig(store, jobs=jobs)

    async def talks(job: Any) -> str:
        job.log("the last words")
        return "done"

    rig.on(talks)
    async with rig:
        job_id = await rig.enqueue("talks")
        await jobs.writing.wait()
        draining = asyncio.create_task(rig.exchange.drain(0))
        await until(lambda: rig.told(JobSettled))
        assert await draining == 0
        jobs.go_on.set()
    assert ((await rig.record(job_id)).state, (await rig.record(job_id)).result) == (JobState.COMPLETED, b'"done"')
