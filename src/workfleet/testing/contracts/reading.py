"""Contract of what reads jobs: `get`, `find`, `logs`, `counts`, `next_due_ms`."""

from __future__ import annotations

import pytest

from workfleet.model.jobs import Children, JobCounts, JobState
from workfleet.ports.jobs import JobQuery, PruneRule
from workfleet.ports.stores import Store

from .harness import FAILED, RAISED, ManualClock, claim, ended, ids, job, jobs, request


@pytest.mark.asyncio
class TestReading:
    async def test_get_answers_in_the_order_asked_with_none_for_what_is_not_there(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a b"))
        found = await store.jobs.get(["b", "nobody", "a", "b"])
        assert [record and record.id for record in found] == ["b", None, "a", "b"]
        assert await store.jobs.get([]) == []

    async def test_a_job_of_another_queue_is_not_there_where_a_queue_is_named(self, store: Store) -> None:
        await store.jobs.enqueue([job("a"), job("late", delay_ms=60_000), job("bad")])
        held = {record.id: record for record in await claim(store, 2)}
        await store.jobs.report(held["a"].claim, lines=["line"])
        await store.jobs.settle([ended(held["bad"], FAILED)])
        for queue, there in (("r", False), ("q", True)):
            assert [record is not None for record in await store.jobs.get(["a", "late"], queue=queue)] == [there] * 2
            assert await store.jobs.logs("a", queue=queue) == ["line"] * there
            assert (await store.jobs.place("late", queue=queue) is not None) is there
            assert await store.jobs.children("a", queue=queue) == Children()
            assert await store.jobs.retry(["bad"], queue=queue) == [there]
            assert await store.jobs.promote(["late"], queue=queue) == [there]
            assert await store.jobs.cancel(["a"], queue=queue) == ["asked" if there else "missing"]
            assert await store.jobs.delete(["late", "bad"], queue=queue) == [there] * 2

    async def test_a_job_that_is_in_no_flow_has_no_children(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a"))
        assert [await store.jobs.children(each) for each in ("a", "nobody")] == [Children(), Children()]

    async def test_find_lists_the_newest_first_by_creation_then_by_id(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue(jobs("b c a"))
        await clock.advance(1)
        await store.jobs.enqueue(jobs("0"))
        assert ids(await store.jobs.find(JobQuery())) == "0 c b a"
        assert ids(await store.jobs.find(JobQuery(limit=2, offset=1))) == "c b"
        assert ids(await store.jobs.find(JobQuery(limit=2, offset=4))) == ""

    async def test_find_filters(self, store: Store) -> None:
        await store.jobs.enqueue([job("a"), job("b", name="other"), job("c", queue="r"), job("d", delay_ms=9)])
        (record,) = await claim(store)
        assert ids(await store.jobs.find(JobQuery(states=(JobState.ACTIVE,)))) == "a"
        assert ids(await store.jobs.find(JobQuery(states=(JobState.ACTIVE,), queue="r"))) == ""
        await store.jobs.settle([ended(record, FAILED)])
        assert ids(await store.jobs.find(JobQuery(states=(JobState.FAILED,), queue="q", name="work"))) == "a"
        assert ids(await store.jobs.find(JobQuery(queue="q"))) == "d b a"
        assert ids(await store.jobs.find(JobQuery(queue="none"))) == ""
        assert ids(await store.jobs.find(JobQuery(name="other"))) == "b"
        assert ids(await store.jobs.find(JobQuery(states=(JobState.FAILED, JobState.DELAYED)))) == "d a"
        assert ids(await store.jobs.find(JobQuery(states=(JobState.WAITING,), queue="r"))) == "c"
        assert ids(await store.jobs.find(JobQuery(states=()))) == ""

    async def test_find_leaves_out_the_products_own_when_told(self, store: Store) -> None:
        await store.jobs.enqueue([job("a"), job("b", housekeeping=True)])
        assert ids(await store.jobs.find(JobQuery())) == "b a"
        assert ids(await store.jobs.find(JobQuery(housekeeping=False))) == "a"

    async def test_logs_of_nobody_are_empty(self, store: Store) -> None:
        assert await store.jobs.logs("nobody") == []

    async def test_next_due_is_the_first_delayed_of_the_queues(self, store: Store, clock: ManualClock) -> None:
        now = await store.now_ms()
        assert await store.jobs.next_due_ms(["q"]) is None
        await store.jobs.enqueue([job("a", delay_ms=500), job("b", delay_ms=300), job("c", queue="r", delay_ms=100)])
        await store.jobs.enqueue([job("d")])
        assert await store.jobs.next_due_ms(["q"]) == now + 300
        assert await store.jobs.next_due_ms(["q", "r", "none"]) == now + 100
        assert await store.jobs.next_due_ms(["none"]) is None
        assert await store.jobs.next_due_ms([]) is None
        await clock.advance(300)
        await claim(store, 9)
        assert await store.jobs.next_due_ms(["q"]) == now + 500


@pytest.mark.asyncio
class TestCounts:
    async def test_by_state(self, store: Store, clock: ManualClock) -> None:
        now = await store.now_ms()
        await store.jobs.enqueue(jobs("1 2 3 4"))
        done, failed, tried, _ = await claim(store, 4)
        await store.jobs.settle([ended(done), ended(failed, FAILED), ended(tried, RAISED)])
        await clock.advance(7)
        await store.jobs.enqueue([job("5"), job("6"), job("7", priority=1), job("8", delay_ms=99)])
        await store.jobs.enqueue([job("9", queue="r", delay_ms=9_000)])
        assert await store.jobs.counts() == {
            "q": JobCounts(
                waiting=2,
                prioritized=1,
                delayed=2,
                active=1,
                completed=1,
                failed=1,
                retrying=1,
                oldest_ready_ms=now + 7,
            ),
            "r": JobCounts(delayed=1),
        }

    async def test_the_oldest_is_who_waits_longest(self, store: Store, clock: ManualClock) -> None:
        now = await store.now_ms()
        await store.jobs.enqueue([job("a", delay_ms=20, priority=5)])
        await clock.advance(30)
        await store.jobs.enqueue([job("b"), job("c", priority=3), job("d", lifo=True)])
        await store.jobs.claim(request(0))
        await clock.advance(5)
        assert ids(await claim(store)) == "d"
        assert (await store.jobs.counts())["q"].oldest_ready_ms == now + 20
        assert ids(await claim(store, 3)) == "b c a"
        assert (await store.jobs.counts())["q"].oldest_ready_ms is None

    async def test_a_lifo_job_may_be_the_oldest(self, store: Store, clock: ManualClock) -> None:
        now = await store.now_ms()
        await store.jobs.enqueue([job("a", lifo=True)])
        await clock.advance(9)
        await store.jobs.enqueue([job("b", lifo=True), job("c")])
        assert (await store.jobs.counts())["q"].oldest_ready_ms == now

    async def test_without_the_products_own_jobs(self, store: Store, clock: ManualClock) -> None:
        own = [job("h1"), job("h2", queue="own"), job("h3", delay_ms=900), job("h4", priority=2), job("h5", lifo=True)]
        for each in own:
            each.housekeeping = True
        await store.jobs.enqueue(own)
        await clock.advance(5)
        await store.jobs.enqueue([job("a")])
        assert await store.jobs.counts(housekeeping=False) == {
            "q": JobCounts(waiting=1, oldest_ready_ms=await store.now_ms())
        }
        assert await store.jobs.counts() == {
            "q": JobCounts(waiting=3, prioritized=1, delayed=1, oldest_ready_ms=await store.now_ms() - 5),
            "own": JobCounts(waiting=1, oldest_ready_ms=await store.now_ms() - 5),
        }

    async def test_a_queue_to_which_nothing_was_added_is_not_listed(self, store: Store) -> None:
        await store.jobs.enqueue([job("a", queue="own", housekeeping=True)])
        await store.jobs.enqueue([job("a", queue="q"), job("a", queue="own")])
        assert list(await store.jobs.counts()) == ["own"]
        assert await store.jobs.counts(housekeeping=False) == {}

    async def test_a_queue_that_had_jobs_is_still_listed(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue(jobs("a"))
        await store.jobs.settle([ended(record) for record in await claim(store)])
        await clock.advance(1)
        assert await store.jobs.prune([PruneRule(JobState.COMPLETED, age_ms=0)]) == 1
        assert await store.jobs.counts() == {"q": JobCounts()}
