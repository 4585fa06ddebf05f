"""Contract of `JobStore.take_over`."""

from __future__ import annotations

import asyncio

import pytest

from workfleet.model.jobs import JobState
from workfleet.ports.jobs import TakeOver
from workfleet.ports.stores import Store

from .harness import CRASHED, ManualClock, claim, ended, ids, jobs, stored


@pytest.mark.asyncio
class TestTakeOver:
    async def test_an_expired_job_at_the_very_instant(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue(jobs("a"))
        (old,) = await claim(store, worker="dead", lease_ms=1_000)
        await clock.advance(999)
        assert await store.jobs.take_over(TakeOver("reaper", "t2", 700)) == []
        await clock.advance(1)
        (taken,) = await store.jobs.take_over(TakeOver("reaper", "t2", 700))
        assert taken == await stored(store, "a")
        assert (taken.state, taken.worker, taken.token) == (JobState.ACTIVE, "dead", "t2")
        assert (taken.started_ms, taken.lease_until_ms) == (old.started_ms, await store.now_ms() + 700)
        await store.jobs.settle([ended(taken, CRASHED)])
        (attempt,) = (await stored(store, "a")).history
        assert (attempt.worker, attempt.outcome) == ("dead", "crashed")
        (again,) = await claim(store, worker="w2")
        assert (again.worker, again.crashes) == ("w2", 1)

    async def test_the_old_claim_is_stale_from_then_on(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue(jobs("a"))
        (old,) = await claim(store, lease_ms=10)
        await clock.advance(10)
        (taken,) = await store.jobs.take_over(TakeOver("reaper", "t2", 700))
        assert (await store.jobs.settle([ended(old)])).applied == [False]
        assert await store.jobs.renew([old.claim], 700) == [False]
        assert not await store.jobs.report(old.claim, progress=b"1")
        assert await store.jobs.renew([taken.claim], 700) == [True]
        assert await store.jobs.report(taken.claim, progress=b"1")

    async def test_at_most_the_limit_the_oldest_lease_first(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue(jobs("a b c d"))
        for lease_ms in (400, 100, 300, 9_000):
            await claim(store, lease_ms=lease_ms)
        await clock.advance(400)
        assert ids(await store.jobs.take_over(TakeOver("reaper", "t2", 700, limit=2))) == "b c"
        assert ids(await store.jobs.take_over(TakeOver("reaper", "t3", 700, limit=2))) == "a"
        assert ids(await store.jobs.take_over(TakeOver("reaper", "t4", 700, limit=2))) == ""

    async def test_what_named_workers_hold_whatever_their_leases(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a b c d"))
        for worker in ("w1", "w2", "w3", "w1"):
            await claim(store, worker=worker)
        assert await store.jobs.take_over(TakeOver("reaper", "t1", 700)) == []
        assert await store.jobs.take_over(TakeOver("reaper", "t1", 700, workers=())) == []
        assert await store.jobs.take_over(TakeOver("reaper", "t1", 700, workers=("nobody",))) == []
        taken = await store.jobs.take_over(TakeOver("reaper", "t2", 700, workers=("w1", "w3")))
        assert ids(taken) == "a c d"
        assert [record.worker for record in taken] == ["w1", "w3", "w1"]
        assert (await stored(store, "b")).worker == "w2"

    async def test_a_second_reaper_leaves_the_first_ones_alone(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue(jobs("a"))
        await claim(store, worker="dead")
        (taken,) = await store.jobs.take_over(TakeOver("reaper1", "t1", 700, workers=("dead",)))
        assert await store.jobs.take_over(TakeOver("reaper2", "t2", 700, workers=("dead",))) == []
        (moved,) = await store.jobs.take_over(TakeOver("reaper3", "t3", 700, workers=("reaper1",)))
        assert (moved.worker, moved.token) == ("dead", "t3")
        await clock.advance(700)
        (last,) = await store.jobs.take_over(TakeOver("reaper4", "t4", 700))
        assert last.worker == "dead"
        assert (await store.jobs.settle([ended(taken), ended(moved), ended(last)])).applied == [False, False, True]

    async def test_a_repeated_token_gives_what_it_still_holds(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue(jobs("a b c"))
        await claim(store, 3, lease_ms=10)
        await clock.advance(10)
        asked = TakeOver("reaper", "t2", 700, limit=2)
        first = await store.jobs.take_over(asked)
        assert len(first) == 2
        assert await store.jobs.take_over(asked) == first
        await store.jobs.settle([ended(first[0])])
        assert await store.jobs.take_over(asked) == first[1:]

    async def test_reapers_at_once_never_share_a_job(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue(jobs(" ".join(f"j{n}" for n in range(30))))
        await claim(store, 30, lease_ms=10)
        await clock.advance(10)
        given = await asyncio.gather(
            *(store.jobs.take_over(TakeOver(f"r{n}", f"t{n}", 700, limit=4)) for n in range(10))
        )
        assert sorted(len(records) for records in given) == [0, 0, 2, 4, 4, 4, 4, 4, 4, 4]
        assert len({record.id for records in given for record in records}) == 30
