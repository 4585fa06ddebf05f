"""What the store cannot take fails its own job, and holds up no other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.queues.rig import Rig, until
from workfleet.model.jobs import JobRecord, JobState
from workfleet.ports.stores import Store
from workfleet.queues.handlers import Returned


class Refusing:
    """A job store that chokes on one job's settlement while it completes, as on text that it cannot write."""

    def __init__(self, jobs: Any, bad: set[str]) -> None:
        self._jobs, self._bad = jobs, bad

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jobs, name)

    async def settle(self, settlements: Any, then: Any = None) -> Any:
        for settlement in settlements:
            if settlement.claim.job_id in self._bad and settlement.outcome.state is JobState.COMPLETED:
                raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")
        return await self._jobs.settle(settlements, then)


@pytest.mark.parametrize("others", [0, 9])
async def test_one_settlement_that_cannot_be_stored(store: Store, others: int) -> None:
    bad: set[str] = set()
    rig = Rig(store, jobs=Refusing(store.jobs, bad))
    ran = []
    go = asyncio.Event()

    async def works(job: Any) -> int:
        ran.append(job.id)
        await go.wait()
        return 1

    rig.on(works)
    ids = await rig.enqueue_many(["works"] * (others + 1))
    bad.add(ids[0])
    async with rig:
        await until(lambda: len(ran) == others + 1)
        go.set()  # all end at once, and are settled in one call
        records = [await rig.finished(job_id) for job_id in ids]
        await until(lambda: rig.exchange.active == 0)
    assert sorted(ran) == sorted(ids)
    assert [record.state for record in records] == [JobState.FAILED] + [JobState.COMPLETED] * others
    assert records[0].failure is not None
    assert "surrogates not allowed" in records[0].failure.message
    assert rig.restarts == []


@pytest.mark.parametrize("others", [0, 3])
async def test_what_waits_is_claimed_at_once_after_it(store: Store, others: int) -> None:
    """The call that failed has claimed nothing, which does not mean that there was nothing."""
    bad: set[str] = set()
    rig = Rig(store, jobs=Refusing(store.jobs, bad), concurrency={"q": others + 1}, poll_ms=3_600_000)

    async def works(_job: Any) -> int:
        return 1

    rig.on(works)
    ids = await rig.enqueue_many(["works"] * (others + 2))
    bad.add(ids[0])
    async with rig:
        records = [await rig.finished(job_id) for job_id in ids]
    assert [record.state for record in records] == [JobState.FAILED] + [JobState.COMPLETED] * (others + 1)


async def test_a_returned_job_that_the_store_cannot_take_fails_the_run(rig: Rig) -> None:
    """SQLite cannot write a lone surrogate; a store in memory can."""

    async def parent(_job: Any) -> int:
        return 1

    def finish(_record: JobRecord, _value: object) -> Returned:
        return Returned(b"1", (JobRecord(id="child", queue="q", name="\ud800"),))

    rig.on(parent, finish=finish)
    async with rig:
        record = await rig.finished(await rig.enqueue("parent"))
    (child,) = await rig.store.jobs.get(["child"])
    assert (record.state is JobState.FAILED) == (child is None)
