"""Timeouts: async code is cancelled, a thread is only asked, and what comes late is discarded."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from msgspec import UNSET

from tests.queues.rig import Rig, until
from workfleet.events import JobSettled
from workfleet.model.jobs import JobState, RunOverrides
from workfleet.model.outcome import RunPolicy
from workfleet.model.policy import fixed


def policy(timeout_ms: int | None, attempts: int = 1) -> RunPolicy:
    return RunPolicy(attempts=attempts, backoff=fixed("1ms"), timeout_ms=timeout_ms)


async def test_async_code_is_cancelled_and_the_attempt_counts(rig: Rig) -> None:
    cleaned: list[int] = []

    async def long(job: Any) -> None:
        assert job.deadline is not None
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(job.attempt)

    rig.on(long, policy=policy(20, attempts=2))
    async with rig:
        record = await rig.finished(await rig.enqueue("long"))
        await until(lambda: rig.exchange.active == 0)
    assert cleaned == [1, 2]
    assert (record.state, record.outcome, record.attempts_made) == (JobState.FAILED, "timed_out", 2)
    assert record.failure is not None
    assert (record.failure.code, record.failure.message) == (
        "timed_out", "the run did not end within its timeout of 0.02 s"
    )  # fmt: skip
    assert [event.outcome for event in rig.told(JobSettled)] == ["timed_out", "timed_out"]
    assert rig.exchange.totals == {"delayed": 1, "failed": 1}


@pytest.mark.parametrize("afterwards", ["returns", "raises", "raises cancelled", "waits in finally", "says fail"])
async def test_code_that_does_not_heed_its_cancellation_has_timed_out_all_the_same(rig: Rig, afterwards: str) -> None:
    from workfleet.errors import Fail

    async def stubborn(_job: Any) -> str:
        try:
            await asyncio.Event().wait()
        except BaseException:  # a bare except, as users write it
            if afterwards == "raises":
                raise ValueError("another error") from None
            if afterwards == "raises cancelled":
                raise asyncio.CancelledError("own") from None
            if afterwards == "says fail":
                raise Fail("no more") from None
        finally:
            if afterwards == "waits in finally":
                await asyncio.sleep(0.01)
        return "a late result"

    rig.on(stubborn, policy=policy(10))
    async with rig:
        record = await rig.finished(await rig.enqueue("stubborn"))
    assert (record.state, record.outcome, record.result) == (JobState.FAILED, "timed_out", None)


async def test_the_deadline_is_on_the_board_until_the_run_has_ended(rig: Rig) -> None:
    ended = asyncio.Event()

    async def waits(_job: Any) -> None:
        await ended.wait()

    rig.on(waits, policy=policy(60_000))
    async with rig:
        job_id = await rig.enqueue("waits")
        await until(lambda: rig.board.notes)
        timeouts = list(rig.board.timeouts.values())
        ended.set()
        await rig.finished(job_id)
    assert timeouts == [60_000]


async def test_a_store_that_is_slow_to_settle_makes_no_run_that_is_past_its_deadline(rig: Rig) -> None:
    """The supervisor would kill a worker for a note whose deadline has passed: after the run there is none."""
    from tests.queues.rig import FaultyJobs

    class Slow(FaultyJobs):
        settling = asyncio.Event()
        go_on = asyncio.Event()

        async def settle(self, *args: Any) -> Any:
            self.settling.set()
            await self.go_on.wait()
            return await self._jobs.settle(*args)

    jobs = rig.jobs = Slow(rig.store.jobs, lambda *_: None)

    async def quick(_job: Any) -> None:
        return None

    rig.on(quick, policy=policy(60_000))
    async with rig:
        job_id = await rig.enqueue("quick")
        await jobs.settling.wait()
        await until(lambda: list(rig.board.timeouts.values()) == [None])
        jobs.go_on.set()
        await rig.finished(job_id)


async def test_a_timeout_of_the_job_itself_counts_before_the_handlers(rig: Rig) -> None:
    async def long(_job: Any) -> None:
        await asyncio.Event().wait()

    async def short(_job: Any) -> str:
        await asyncio.sleep(0.03)
        return "done"

    rig.on(long, policy=policy(None))
    rig.on(short, policy=policy(1))
    async with rig:
        timed = await rig.finished(await rig.enqueue("long", run=RunOverrides(timeout_ms=10)))
        untimed = await rig.finished(await rig.enqueue("short", run=RunOverrides(timeout_ms=None)))
        own = await rig.finished(await rig.enqueue("short", run=RunOverrides(attempts=3)))
    assert (timed.outcome, timed.attempts_made) == ("timed_out", 1)
    assert untimed.result == b'"done"'
    assert (own.outcome, own.attempts_made) == ("timed_out", 3)
    assert own.run.timeout_ms is UNSET


# Threads


async def test_a_timeout_for_a_thread_without_abandon_fails_the_job_unrun(rig: Rig) -> None:
    ran: list[int] = []

    def function(_job: Any) -> None:
        ran.append(1)

    rig.on(function)
    async with rig:
        record = await rig.finished(await rig.enqueue("function", run=RunOverrides(timeout_ms=1_000)))
    assert (record.state, record.attempts_made, ran) == (JobState.FAILED, 1, [])
    assert record.failure is not None
    assert record.failure.code == "timeout_refused"
    assert record.failure.message.startswith("job 'function': it has a timeout but runs in a thread, which cannot be")
    assert 'pool="cpu"' in record.failure.message
    assert 'on_timeout="abandon"' in record.failure.message


async def test_an_abandoned_run_without_attempts_fails_at_once_and_frees_its_slot(rig: Rig) -> None:
    rig.concurrency = {"q": 1}
    go_on, said = threading.Event(), list[str]()

    def deaf(job: Any) -> str:
        if job.attempt == 1 and not said:
            said.append("began")
            go_on.wait(10)
            job.log("too late")
            said.append(f"cancelled {job.cancelled}")
            return "late"
        return "next"

    rig.on(deaf, policy=policy(300), abandons=True)
    async with rig:
        first, second = await rig.enqueue_many(["deaf", "deaf"])
        record = await rig.finished(first)
        other = await rig.finished(second)  # the thread still hangs: another one runs this job
        go_on.set()
        await until(lambda: len(said) == 2)
        await rig.finished(await rig.enqueue("deaf"))  # by now its thread has told what it returned
        late = await rig.record(first)
    assert (record.state, record.outcome) == (JobState.FAILED, "timed_out")
    assert (late.state, late.result, late.attempts_made) == (JobState.FAILED, None, 1)
    assert other.result == b'"next"'
    assert said == ["began", "cancelled True"]
    assert await rig.store.jobs.logs(first) == []


async def test_an_abandoned_run_with_attempts_left_is_retried_when_its_thread_has_ended(rig: Rig) -> None:
    inside, most = [0], [0]

    def slow(job: Any) -> str:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        while job.attempt == 1 and not job.cancelled:
            time.sleep(0.001)
        if job.attempt == 1:
            time.sleep(0.05)  # it goes on for a while after it was asked to stop
        inside[0] -= 1
        return f"attempt {job.attempt}"

    rig.on(slow, policy=policy(300, attempts=2), abandons=True)
    async with rig:
        record = await rig.finished(await rig.enqueue("slow"))
    assert (record.result, record.attempts_made, most[0]) == (b'"attempt 2"', 2, 1)
    assert [attempt.outcome for attempt in record.history] == ["timed_out", "completed"]
