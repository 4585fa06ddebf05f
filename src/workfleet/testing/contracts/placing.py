"""Contract of `place`: what a job waits for."""

from __future__ import annotations

import pytest

from workfleet.model.jobs import UniqueRule
from workfleet.model.limits import GroupLimits, QueueLimits, Rate
from workfleet.model.outcome import Ended
from workfleet.ports.jobs import Place
from workfleet.ports.stores import Store

from .harness import ManualClock, claim, ended, ids, job, jobs, states

EXCLUSIVE = UniqueRule(until="started", exclusive=True)


async def ahead(store: Store, names: str) -> list[int]:
    """How many are before each of these jobs."""
    places = [await store.jobs.place(name) for name in names.split()]
    return [-1 if place is None else place.ahead for place in places]


@pytest.mark.asyncio
class TestPlace:
    async def test_counts_the_ready_jobs_that_a_claim_hands_out_before(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue(jobs("a b c"))
        await store.jobs.enqueue([job("p2", priority=2), job("p1", priority=1), job("q2", priority=2)])
        await store.jobs.enqueue([job("l1", lifo=True), job("r", queue="r")])
        await clock.advance(1)
        await store.jobs.enqueue([job("l2", lifo=True), job("later", delay_ms=9)])
        assert await ahead(store, "l2 l1 a b c p1 p2 q2") == [0, 1, 2, 3, 4, 5, 6, 7]
        assert await ahead(store, "r later nobody") == [0, 0, -1]
        (first,) = await claim(store)
        assert first.id == "l2"
        assert await ahead(store, "l2 l1 a c q2") == [0, 0, 1, 3, 6]

    async def test_counts_only_those_of_its_group(self, store: Store) -> None:
        await store.jobs.enqueue([*jobs("a1 a2 a3", group="a"), *jobs("b1 b2", group="b"), *jobs("x y")])
        await store.jobs.enqueue([job("a0", group="a", priority=3)])
        assert await ahead(store, "a1 a3 a0 b1 b2 x y") == [0, 2, 3, 0, 1, 0, 1]

    async def test_counts_one_that_is_due_as_if_it_were_ready(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue([job("d", delay_ms=5), job("late", delay_ms=6), job("dp1", priority=1, delay_ms=5)])
        await store.jobs.enqueue(
            [job("dl", lifo=True, delay_ms=3), job("d1", delay_ms=1), job("dp2", priority=2, delay_ms=1)]
        )
        await store.jobs.enqueue([*jobs("a b"), job("p1", priority=1), job("p2", priority=2), job("l", lifo=True)])
        names = "dl l a b d1 d p1 dp1 p2 dp2"
        await clock.advance(5)
        before = await states(store, names)
        assert await ahead(store, names) == list(range(10))
        assert await ahead(store, "late") == [0]
        assert await states(store, names) == before, "who asks changes nothing"
        assert ids(await claim(store, 99)) == names

    async def test_counts_one_of_a_group_that_is_due_with_those_of_the_group(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.jobs.enqueue(
            [job("da", group="a", delay_ms=5), job("dx", delay_ms=5), job("db", group="b", delay_ms=4)]
        )
        await store.jobs.enqueue([*jobs("a1 a2", group="a"), job("a3", group="a", priority=1), job("x")])
        await clock.advance(5)
        assert await ahead(store, "a1 a2 da a3 x dx db") == [0, 1, 2, 3, 0, 1, 0]

    async def test_counts_one_that_is_tried_again_at_its_new_place(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue(jobs("again a"))
        (again,) = await claim(store)
        await store.jobs.settle([ended(again, Ended(kind="retry", after_ms=5))])
        assert await ahead(store, "again a") == [0, 0]
        await clock.advance(5)
        assert await ahead(store, "again a") == [1, 0]
        assert ids(await claim(store, 2)) == "a again"

    async def test_one_that_is_parked_comes_before_nobody(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue([job("a", unique_key="k", unique=EXCLUSIVE)])
        (running,) = await claim(store)
        await store.jobs.enqueue([job("b", unique_key="k", unique=EXCLUSIVE), job("c", priority=1)])
        await clock.advance(1)
        assert await ahead(store, "a b c") == [0, 0, 0]
        await store.jobs.settle([ended(running)])
        assert await ahead(store, "b c") == [0, 1]

    async def test_names_the_job_for_which_a_parked_one_waits(self, store: Store) -> None:
        await store.jobs.enqueue([job("a", unique_key="k", unique=EXCLUSIVE)])
        (running,) = await claim(store)
        await store.jobs.enqueue([job("b", unique_key="k", unique=EXCLUSIVE)])
        places = [await store.jobs.place(each) for each in ("a", "b")]
        assert [place and place.rival for place in places] == [None, "a"]
        await store.jobs.settle([ended(running)])
        assert await store.jobs.place("b") == Place(starts_ms=await store.now_ms())

    async def test_says_when_rates_let_one_more_start(self, store: Store, clock: ManualClock) -> None:
        limits = QueueLimits(
            rate=Rate(2, 1_000), group=GroupLimits(rate=Rate(1, 5_000)), groups={"none": GroupLimits(rate=Rate(0, 9))}
        )
        await store.queues.set_limits({"q": limits})
        await store.jobs.enqueue([*jobs("a1 a2", group="a"), *jobs("n", group="none"), *jobs("x y")])
        start = await store.now_ms()
        assert [await _starts(store, each) for each in ("a1", "n", "x")] == [start, None, start]
        await claim(store, 1)
        await clock.advance(100)
        await claim(store, 1)
        assert [await _starts(store, each) for each in ("a2", "y")] == [start + 5_100, start + 1_000]


async def _starts(store: Store, job_id: str) -> int | None:
    place = await store.jobs.place(job_id)
    assert isinstance(place, Place)
    return place.starts_ms
