"""Contract of `JobStore.promote`, `delete` and `purge`."""

from __future__ import annotations

import asyncio

import pytest

from workfleet.model.jobs import JobCounts, JobState
from workfleet.ports.jobs import JobQuery
from workfleet.ports.stores import Store

from .harness import FAILED, RAISED, ManualClock, claim, finish, ids, job, jobs, state, states, stored


@pytest.mark.asyncio
class TestPromote:
    async def test_is_ready_at_the_place_of_this_instant(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue([job("late", delay_ms=9_000), job("a"), job("urgent", delay_ms=9_000, priority=3)])
        await clock.advance(10)
        assert await store.jobs.promote(["late", "urgent"]) == [True, True]
        late = await stored(store, "late")
        assert (late.state, late.due_ms) == (JobState.WAITING, await store.now_ms())
        assert (late.delay_ms, late.created_ms) == (9_000, await store.now_ms() - 10)
        assert await state(store, "urgent") == "prioritized"
        await clock.advance(1)
        await store.jobs.enqueue(jobs("b"))
        assert ids(await claim(store, 9)) == "a late b urgent"

    async def test_a_retry_need_not_wait(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a"))
        await finish(store, await claim(store), RAISED)
        assert await store.jobs.promote(["a"]) == [True]
        (again,) = await claim(store)
        assert (again.attempts_made, len(again.history)) == (1, 1)

    async def test_only_what_is_delayed(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("done active waiting"))
        done, _ = await claim(store, 2)
        await finish(store, [done])
        before = await store.jobs.find(JobQuery())
        assert await store.jobs.promote(["done", "active", "waiting", "nobody"]) == [False] * 4
        assert await store.jobs.find(JobQuery()) == before
        await store.jobs.enqueue([job("d", delay_ms=5)])
        assert await store.jobs.promote(["d", "d"]) == [True, False]
        assert await store.jobs.promote([]) == []

    async def test_it_wakes(self, store: Store) -> None:
        await store.jobs.enqueue([job("a", delay_ms=9_000)])
        await claim(store)
        task = asyncio.create_task(store.jobs.wait(["q"], 60_000))
        await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, no time
        await store.jobs.promote(["a"])
        assert await asyncio.wait_for(task, 10)


@pytest.mark.asyncio
class TestDelete:
    async def test_in_any_state_but_active_with_logs_and_all(self, store: Store) -> None:
        await store.jobs.enqueue([*jobs("done failed tried active waiting"), job("delayed", delay_ms=9)])
        done, failed, tried, active = await claim(store, 4)
        for record in (done, active):
            await store.jobs.report(record.claim, progress=b"1", lines=["line"])
        await finish(store, [done])
        await finish(store, [failed], FAILED)
        await finish(store, [tried], RAISED)
        names = ["done", "failed", "tried", "active", "waiting", "delayed", "nobody"]
        assert await store.jobs.delete(names) == [True, True, True, False, True, True, False]
        assert ids(await store.jobs.find(JobQuery())) == "active"
        assert await store.jobs.logs("done") == []
        assert await store.jobs.logs("active") == ["line"]
        assert await store.jobs.counts() == {"q": JobCounts(active=1)}
        await finish(store, [active])
        assert await store.jobs.delete(names) == [False, False, False, True, False, False, False]

    async def test_a_deleted_id_can_be_used_anew(self, store: Store) -> None:
        await store.jobs.enqueue([job("a", payload=b"1", unique_key="k")], call="c1")
        assert await store.jobs.delete(["a", "a"]) == [True, False]
        (answer,) = await store.jobs.enqueue([job("a", payload=b"2", unique_key="k")], call="c1")
        assert answer.created
        record = await stored(store, "a")
        assert (record.payload, record.history) == (b"2", ())
        assert ids(await claim(store, 9)) == "a"

    async def test_what_was_deleted_is_not_handed_out(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a b c"))
        await store.jobs.delete(["b"])
        assert ids(await claim(store, 9)) == "a c"


@pytest.mark.asyncio
class TestPurge:
    async def test_these_states_of_this_queue_never_active_ones(self, store: Store) -> None:
        await store.jobs.enqueue([*jobs("done active waiting"), job("p", priority=1), job("d", delay_ms=9)])
        await store.jobs.enqueue([job("other", queue="r"), job("own", housekeeping=True)])
        done, _ = await claim(store, 2)
        await finish(store, [done])
        assert await store.jobs.purge("q", [JobState.FAILED]) == 0
        assert await store.jobs.purge("none", list(JobState)) == 0
        assert await store.jobs.purge("q", [JobState.WAITING, JobState.PRIORITIZED]) == 3
        assert ids(await store.jobs.find(JobQuery())) == "other done d active"
        assert await store.jobs.purge("q", []) == 0
        assert await store.jobs.purge("q", list(JobState)) == 2
        assert await states(store, "active other") == "active waiting"

    async def test_at_most_the_limit_in_the_order_of_enqueueing(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue([job("a", delay_ms=99), job("b", delay_ms=9), job("c", delay_ms=999)])
        await clock.advance(1)
        await store.jobs.enqueue([job("d", delay_ms=1), job("e")])
        every = [JobState.DELAYED, JobState.WAITING]
        assert await store.jobs.purge("q", every, limit=2) == 2
        assert ids(await store.jobs.find(JobQuery())) == "e d c"
        assert await store.jobs.purge("q", every, limit=2) == 2
        assert ids(await store.jobs.find(JobQuery())) == "e"
        assert await store.jobs.purge("q", every, limit=2) == 1
        assert await store.jobs.purge("q", every, limit=2) == 0

    async def test_with_logs_and_keys(self, store: Store) -> None:
        await store.jobs.enqueue([job("a", unique_key="k"), job("b", unique_key="l")])
        (record,) = await claim(store)
        await store.jobs.report(record.claim, lines=["line"])
        await finish(store, [record])
        assert await store.jobs.purge("q", list(JobState)) == 2
        assert await store.jobs.logs("a") == []
        answers = await store.jobs.enqueue([job("a", unique_key="k"), job("c", unique_key="l")])
        assert [answer.created for answer in answers] == [True, True]
