"""Contract of `JobStore.cancel`, `cancels` and `wait_for_cancels`."""

from __future__ import annotations

import asyncio

import pytest

from workfleet.model.jobs import CANCELLED_UNRUN, Claim, JobState
from workfleet.model.outcome import Outcome, Settlement
from workfleet.ports.jobs import JobQuery, TakeOver
from workfleet.ports.stores import Store

from .harness import COMPLETED, FAILED, RAISED, ManualClock, claim, finish, ids, job, jobs, request, states, stored

_SOON_S = 10


@pytest.mark.asyncio
class TestCancel:
    async def test_one_that_does_not_run_fails_unrun(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue([job("waiting"), job("prioritized", priority=1), job("delayed", delay_ms=50)])
        await clock.advance(5)
        names = ["waiting", "prioritized", "delayed"]
        assert await store.jobs.cancel(names) == ["cancelled"] * 3
        now = await store.now_ms()
        for name in names:
            record = await stored(store, name)
            assert (record.state, record.outcome, record.failure) == (JobState.FAILED, "cancelled", CANCELLED_UNRUN)
            assert (record.finished_ms, record.started_ms, record.attempts_made, record.history) == (now, None, 0, ())
            assert (record.cancel_asked, record.result) == (False, None)
        await clock.advance(100)
        assert await claim(store, 9) == []
        assert (await store.jobs.counts())["q"].failed == 3

    async def test_one_that_waits_for_its_retry_keeps_what_it_was(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a"))
        await finish(store, await claim(store), RAISED)
        before = await stored(store, "a")
        assert await store.jobs.cancel(["a"]) == ["cancelled"]
        after = await stored(store, "a")
        assert (after.state, after.failure, after.outcome) == (JobState.FAILED, CANCELLED_UNRUN, "cancelled")
        assert (after.attempts_made, after.history, after.started_ms) == (1, before.history, before.started_ms)

    async def test_one_that_runs_is_marked_and_its_worker_ends_it(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a b"))
        records = await claim(store, 2)
        claims = [record.claim for record in records]
        assert await store.jobs.cancels(claims) == [False, False]
        assert await store.jobs.cancel(["b"]) == ["asked"]
        assert await store.jobs.cancels(claims) == [False, True]
        assert (await stored(store, "b")).cancel_asked
        assert not (await stored(store, "a")).cancel_asked
        assert await states(store, "a b") == "active active"
        assert await store.jobs.renew(claims, 1_000) == [True, True]
        await finish(store, records[1:], COMPLETED)
        assert ((await stored(store, "b")).state, await store.jobs.cancels(claims)) == ("completed", [False, False])

    async def test_the_mark_stays_until_somebody_has_ended_it(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue(jobs("a"))
        await claim(store, lease_ms=10)
        await store.jobs.cancel(["a"])
        await clock.advance(10)
        (taken,) = await store.jobs.take_over(TakeOver("reaper", "t2", 1_000))
        assert taken.cancel_asked
        assert await store.jobs.cancels([taken.claim]) == [True]
        # An end that was decided before the mark came: the store does as it is told, and who claims next learns of it.
        back = Settlement(taken.claim, Outcome(state=JobState.WAITING, code="given_back"))
        assert (await store.jobs.settle([back])).applied == [True]
        (again,) = await claim(store)
        assert again.cancel_asked
        assert (await store.jobs.settle([Settlement(again.claim, back.outcome)])).applied == [True]
        assert await store.jobs.cancel(["a"]) == ["cancelled"]

    async def test_in_each_state_and_twice(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("done failed active waiting"))
        done, failed, _ = await claim(store, 3)
        await finish(store, [done])
        await finish(store, [failed], FAILED)
        before = await store.jobs.get(["done", "failed"])
        names = ["done", "failed", "active", "waiting", "nobody"]
        assert await store.jobs.cancel(names) == ["finished", "finished", "asked", "cancelled", "missing"]
        assert await store.jobs.get(["done", "failed"]) == before
        everything = await store.jobs.find(JobQuery())
        assert await store.jobs.cancel(names) == ["finished", "finished", "asked", "finished", "missing"]
        assert await store.jobs.find(JobQuery()) == everything
        assert await store.jobs.cancel([]) == []
        assert await store.jobs.cancel(["active", "active"]) == ["asked", "asked"]

    async def test_a_retry_forgets_it(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a b"))
        (record,) = await claim(store)
        assert await store.jobs.cancel(["a", "b"]) == ["asked", "cancelled"]
        await finish(store, [record], FAILED)
        assert await store.jobs.retry(["a", "b"]) == [True, True]
        again = await claim(store, 2)
        assert [(record.cancel_asked, record.failure) for record in again] == [(False, None)] * 2
        assert await store.jobs.cancels([record.claim for record in again]) == [False, False]

    async def test_it_frees_its_key(self, store: Store) -> None:
        await store.jobs.enqueue([job("a", unique_key="k")])
        await store.jobs.cancel(["a"])
        (answer,) = await store.jobs.enqueue([job("b", unique_key="k")])
        assert answer.created

    async def test_a_stale_claim_sees_none(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue(jobs("a"))
        (record,) = await claim(store, lease_ms=10)
        await store.jobs.cancel(["a"])
        await clock.advance(10)
        (taken,) = await store.jobs.take_over(TakeOver("reaper", "t2", 1_000))
        stale = [record.claim, Claim("a", "forged", "q"), Claim("nobody", "t2", "q"), taken.claim]
        assert await store.jobs.cancels(stale) == [False, False, False, True]
        assert await store.jobs.cancels([]) == []


@pytest.mark.asyncio
class TestWaitForCancels:
    async def test_until_one_that_runs_is_marked(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a"))
        (record,) = await claim(store)
        task = asyncio.create_task(store.jobs.wait_for_cancels(60_000))
        await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, no time
        await store.jobs.cancel(["a"])
        assert await asyncio.wait_for(task, _SOON_S) is True
        assert await store.jobs.cancels([record.claim]) == [True]

    async def test_until_the_time_is_over(self, store: Store, clock: ManualClock) -> None:
        assert await store.jobs.wait_for_cancels(0) is False
        task = asyncio.create_task(store.jobs.wait_for_cancels(500))
        for _ in range(5):
            await asyncio.sleep(0)  # noqa: TID251
        await clock.advance(499)
        await asyncio.sleep(0)  # noqa: TID251
        assert not task.done()
        await clock.advance(1)
        assert await asyncio.wait_for(task, _SOON_S) is False

    async def test_a_mark_that_came_since_the_last_look_is_not_slept_over(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a b"))
        records = await claim(store, 2)
        claims = [record.claim for record in records]
        assert await store.jobs.cancels(claims) == [False, False]
        await store.jobs.cancel(["a"])
        assert await asyncio.wait_for(store.jobs.wait_for_cancels(60_000), _SOON_S)

    async def test_cancelled_while_it_waits_stays_out_of_the_order(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a b c"))
        await store.jobs.cancel(["b"])
        assert ids(await store.jobs.claim(request(9))) == "a c"
