"""The exchange: it claims only for free slots, makes few calls, and tells each run from claim to settle."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tests.queues.gates import Asking, gated
from tests.queues.rig import FaultyJobs, Rig, until
from workfleet.clock import SystemClock
from workfleet.events import JobClaimed, JobSettled
from workfleet.model.jobs import JobState
from workfleet.ports.stores import Store


async def test_it_claims_for_free_slots_only(store: Store) -> None:
    jobs = Asking(store.jobs)
    rig = Rig(store, jobs=jobs, concurrency={"a": 2, "b": 3})
    gate = gated(rig, "a", "b")
    ids = [*await rig.enqueue_many(["wait"] * 5, queue="a"), *await rig.enqueue_many(["wait"] * 2, queue="b")]
    async with rig:
        await until(lambda: gate.inside == {"a": 2, "b": 2})
        counts = await store.jobs.counts()
        gate.open.set()
        records = [await rig.finished(job_id) for job_id in ids]
        await until(lambda: rig.exchange.active == 0)
    assert (counts["a"].active, counts["a"].waiting, counts["b"].active) == (2, 3, 2)
    assert jobs.wants[0] == {"a": 2, "b": 3}
    assert all(wanted.get("a", 0) <= 2 and wanted.get("b", 0) <= 3 for wanted in jobs.wants)
    assert gate.most == {"a": 2, "b": 2}
    assert {record.result for record in records} == {b'"through"'}
    assert rig.exchange.totals == {"completed": 7}


async def test_a_busy_worker_makes_few_calls(store: Store) -> None:
    jobs = FaultyJobs(store.jobs, lambda *_: None)
    rig = Rig(store, jobs=jobs)

    async def quick(_job: Any) -> None:
        await asyncio.sleep(0)

    rig.on(quick)
    ids = await rig.enqueue_many(["quick"] * 200)
    async with rig:
        for job_id in ids:
            await rig.finished(job_id)
    trades = jobs.calls.count("claim") + jobs.calls.count("settle")
    assert trades <= 45  # 200 jobs in batches of 10, and at most as many calls that carried only what had ended


async def test_a_full_queue_with_a_due_job_makes_no_tight_loop(store: Store) -> None:
    jobs = FaultyJobs(store.jobs, lambda *_: None)
    rig = Rig(store, jobs=jobs, concurrency={"full": 1, "free": 1})
    gate = gated(rig, "full", "free")
    first = await rig.enqueue("wait", queue="full")
    async with rig:
        await until(lambda: gate.inside["full"] == 1)
        delayed = await rig.enqueue("wait", queue="full", delay_ms=1)
        (record,) = await store.jobs.get([delayed])
        assert record is not None
        due_ms = record.due_ms
        await until(lambda: rig.clock.now_ms() > due_ms)  # and nobody has a slot for it
        before = len(jobs.calls)
        await asyncio.sleep(0.2)
        calls = len(jobs.calls) - before
        gate.open.set()
        await rig.finished(first)
        await rig.finished(delayed)
    assert calls <= 6


async def test_a_delayed_job_runs_when_it_is_due_not_at_the_poll(rig: Rig) -> None:
    async def late(job: Any) -> None:
        return None

    rig.on(late)
    async with rig:
        started = time.monotonic()
        record = await rig.finished(await rig.enqueue("late", delay_ms=80))
    assert record.started_ms is not None
    assert record.started_ms >= record.created_ms + 80
    assert time.monotonic() - started < 5


async def test_a_wake_during_a_call_is_not_lost(store: Store) -> None:
    """The job came after the store had looked, and the store tells nobody of it."""

    class Deaf(Asking):
        async def wait(self, queues: Any, timeout_ms: int) -> bool:
            await asyncio.Event().wait()
            return False

    jobs = Deaf(store.jobs)
    rig = Rig(store, jobs=jobs)
    gate = gated(rig)
    jobs.answer.clear()
    async with rig:
        await jobs.looked.wait()  # the claim has been made, its answer is held back
        job_id = await rig.enqueue("wait")
        rig.exchange.wake()
        jobs.answer.set()
        gate.open.set()
        assert (await rig.finished(job_id)).state is JobState.COMPLETED


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_events_tell_a_run_from_claim_to_settle(rig: Rig, kind: str) -> None:
    async def coroutine(_job: Any) -> int:
        return 7

    def function(_job: Any) -> int:
        return 7

    rig.on(coroutine if kind == "async" else function, name="seven")
    async with rig:
        job_id = await rig.enqueue("seven")
        await rig.finished(job_id)
        await until(lambda: rig.told(JobSettled))
    (claimed,) = rig.told(JobClaimed)
    (settled,) = rig.told(JobSettled)
    assert (claimed.id, claimed.name, claimed.queue, claimed.attempt, claimed.max_attempts) == (
        job_id, "seven", "q", 1, 2
    )  # fmt: skip
    assert 0 <= claimed.wait_ms < 10_000
    assert (settled.id, settled.state, settled.outcome, settled.attempt, settled.error) == (
        job_id, "completed", "completed", 1, None
    )  # fmt: skip


async def test_housekeeping_is_not_counted(rig: Rig) -> None:
    async def beat(_job: Any) -> None:
        return None

    rig.on(beat)
    async with rig:
        await rig.finished(await rig.enqueue("beat", housekeeping=True))
        await until(lambda: rig.told(JobSettled))
    assert rig.exchange.totals == {}
    assert rig.told(JobSettled)[0].severity() == "debug"


async def test_speed_of_no_ops(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """Printed, not judged: the machine is shared."""
    rig = Rig(store, concurrency={"q": 100})

    async def noop(_job: Any) -> None:
        return None

    rig.on(noop)
    count = 2_000
    await rig.enqueue_many(["noop"] * count)
    async with rig:
        started = time.perf_counter()
        await until(lambda: rig.exchange.totals["completed"] == count)
        rate = count / (time.perf_counter() - started)
    with capsys.disabled():
        print(f"\n  {type(store).__name__}: {rate:,.0f} no-op jobs/s")


@pytest.mark.parametrize("ahead_ms", [3_600_000, -3_600_000])
async def test_when_a_job_is_due_is_judged_by_the_clock_of_the_store(rig: Rig, ahead_ms: int) -> None:
    """A machine whose clock is wrong neither asks in a loop nor sleeps through it."""
    clock = SystemClock()

    class Wrong:
        monotonic, sleep = clock.monotonic, clock.sleep

        def now_ms(self) -> int:
            return clock.now_ms() + ahead_ms

    async def run(_job: Any) -> None: ...

    rig.clock, rig.poll_ms = Wrong(), 60_000
    rig.jobs = asking = Asking(rig.store.jobs)
    rig.on(run)
    job_id = await rig.enqueue("run", delay_ms=500)
    async with rig:
        await rig.finished(job_id)
    assert asking.calls.count("claim") <= 4
