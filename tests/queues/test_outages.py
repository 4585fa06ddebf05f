"""A store that fails at any call of a job's life: nothing is lost, nothing is done twice, and the trouble is told."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from tests.queues.rig import FaultyJobs, Rig, until
from workfleet.clock import SystemClock
from workfleet.events import ClaimLost, JobEnqueued, JobSettled, StoreTrouble
from workfleet.ids import derived_id
from workfleet.model.jobs import JobRecord, JobState
from workfleet.model.outcome import RunPolicy
from workfleet.model.policy import fixed
from workfleet.payloads.codec import encode_result
from workfleet.ports.stores import Store
from workfleet.queues.handlers import Returned

LINES = ["attempt 1 begins", "attempt 2 begins", "attempt 2 ends"]


class Hasty(SystemClock):
    """Waits a hundredth of what is asked for: backing off takes real time otherwise."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 100)


class Life:
    """One job that fails once, then logs, reports progress, returns a result and makes another job."""

    def __init__(self, store: Store, plan: Any) -> None:
        self.jobs = FaultyJobs(store.jobs, plan)
        self.rig = Rig(store, clock=Hasty(), jobs=self.jobs)
        self.runs: Counter[str] = Counter()
        self.rig.on(self.first, policy=RunPolicy(attempts=2, backoff=fixed("1ms")), finish=self.finish)
        self.rig.on(self.second)

    async def first(self, job: Any) -> str:
        self.runs[f"first {job.attempt}"] += 1
        job.log(f"attempt {job.attempt} begins")
        await job.progress(job.attempt)
        if job.attempt == 1:
            raise OSError("the first attempt fails")
        job.log("attempt 2 ends")
        return "done"

    async def second(self, job: Any) -> None:
        self.runs["second"] += 1

    def finish(self, record: JobRecord, value: object) -> Returned:
        follow_up = JobRecord(id=derived_id(record.id, 0), queue="q", name="second")
        return Returned(encode_result(value, "result"), (follow_up,))

    async def live(self) -> None:
        """Until all of it is settled."""
        async with self.rig:
            first = await self.rig.enqueue("first")
            record = await self.rig.finished(first)
            await self.rig.finished(derived_id(first, 0))
            await until(lambda: self.rig.exchange.active == 0)
        assert (record.state, record.result, record.attempts_made) == (JobState.COMPLETED, b'"done"', 2)
        assert self.runs == {"first 1": 1, "first 2": 1, "second": 1}
        assert await self.rig.store.jobs.logs(first) == LINES
        assert record.progress == b"2"
        assert [a.number for a in record.history] == [1, 2]
        assert self.rig.exchange.totals == {"delayed": 1, "completed": 2}
        assert len(self.rig.told(JobSettled)) == 3
        assert [(event.id, event.created) for event in self.rig.told(JobEnqueued)] == [(derived_id(first, 0), True)]
        assert self.rig.told(ClaimLost) == []
        assert self.rig.board.notes == {}


@pytest.mark.parametrize("fault", ["before", "after"])
@pytest.mark.parametrize("method", ["claim", "settle", "report", "next_due_ms", "wait"])
async def test_each_kind_of_call_fails_each_time_once(store: Store, method: str, fault: str) -> None:
    """Every first try of the method fails, and its repeat goes through."""
    calls: Counter[str] = Counter()

    def plan(name: str, _number: int) -> str | None:
        calls[name] += 1
        return fault if name == method and calls[name] % 2 else None

    life = Life(store, plan)
    await life.live()
    assert calls[method] >= 2, "the fault has not been met"


@pytest.mark.parametrize("fault", ["before", "after"])
async def test_everything_fails_three_times_in_a_row(store: Store, fault: str) -> None:
    calls: Counter[str] = Counter()

    def plan(name: str, _number: int) -> str | None:
        calls[name] += 1
        return fault if calls[name] % 4 and name in ("claim", "settle") else None

    life = Life(store, plan)
    await life.live()
    told = life.rig.told(StoreTrouble)
    assert {event.what for event in told} == {"settling and claiming jobs"}
    # Each outage is told once, not once a try.
    assert len(told) <= (calls["claim"] + calls["settle"] + 3) // 4


async def test_a_store_that_is_down_costs_the_last_lines_but_not_the_outcome(store: Store) -> None:
    jobs = FaultyJobs(store.jobs, lambda name, _: "before" if name == "report" else None)
    rig = Rig(store, jobs=jobs)

    async def talks(job: Any) -> str:
        for number in range(3):
            job.log(f"line {number}")
            await job.progress(number)
        return "done"

    rig.on(talks)
    async with rig:
        job_id = await rig.enqueue("talks")
        record = await rig.finished(job_id)
    assert (record.state, record.result, record.progress) == (JobState.COMPLETED, b'"done"', None)
    assert await store.jobs.logs(job_id) == []


async def test_a_loop_that_fails_and_is_served_again_loses_nothing(store: Store) -> None:
    """Not an outage but a bug, say: the service is restarted on the same object, and what had ended is settled."""

    class Broken(FaultyJobs):
        async def settle(self, *args: Any) -> Any:
            self.calls.append("settle")
            if self.calls.count("settle") == 1:
                raise RuntimeError("a bug")
            return await store.jobs.settle(*args)

    rig = Rig(store, jobs=Broken(store.jobs, lambda *_: None))
    runs = []

    async def once(_job: Any) -> None:
        runs.append(1)

    rig.on(once)
    async with rig:
        job_id = await rig.enqueue("once")
        with pytest.raises(RuntimeError, match="a bug"):
            await rig.serving
        rig.serving = asyncio.create_task(rig.exchange.serve())
        record = await rig.finished(job_id)
        await until(lambda: rig.exchange.active == 0)
    assert (record.state, runs) == (JobState.COMPLETED, [1])


async def test_an_outage_while_idle_ends_with_a_claim_not_with_the_poll(store: Store) -> None:
    """What was enqueued while the store could not tell of it is found when it is back."""
    down = True

    def plan(name: str, number: int) -> str | None:
        return "before" if down and (name, number) != ("claim", 1) else None

    rig = Rig(store, clock=Hasty(), jobs=FaultyJobs(store.jobs, plan), poll_ms=3_600_000)

    async def found(_job: Any) -> None:
        return None

    rig.on(found)
    async with rig:
        await until(lambda: rig.told(StoreTrouble))
        job_id = await rig.enqueue("found")
        down = False
        assert (await rig.finished(job_id)).state is JobState.COMPLETED
    assert len(rig.told(StoreTrouble)) == 1
