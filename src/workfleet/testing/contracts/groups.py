"""Contract of groups: they take turns, by weight, across claims and workers, within limits of their own."""

from __future__ import annotations

import pytest

from workfleet.model.limits import GroupLimits, QueueLimits, Rate
from workfleet.model.outcome import GIVE_BACK
from workfleet.ports.stores import Store

from .harness import ManualClock, Opener, claim, finish, ids, job, jobs, request


async def add(store: Store, **groups: int) -> None:
    """Enqueue so many jobs of each group: "a1 a2 …". The group "_" is none."""
    for group, count in groups.items():
        names = " ".join(f"{group}{number}" for number in range(1, count + 1))
        await store.jobs.enqueue(jobs(names, group="" if group == "_" else group))


async def one_by_one(store: Store, times: int) -> str:
    """What claims of one job each give, by a new worker each time."""
    return " ".join([ids(await claim(store, worker=f"w{number}")) for number in range(times)])


@pytest.mark.asyncio
class TestGroups:
    async def test_take_turns_in_the_order_of_their_names(self, store: Store) -> None:
        await add(store, c=2, a=3, b=1)
        assert ids(await claim(store, 9)) == "a1 b1 c1 a2 c2 a3"

    async def test_the_turn_is_kept_between_claims_of_several_workers(self, store: Store) -> None:
        await add(store, a=3, b=3, c=3)
        assert await one_by_one(store, 4) == "a1 b1 c1 a2"
        assert ids(await claim(store, 2, worker="x")) == "b2 c2"
        assert ids(await claim(store, 9, worker="y")) == "a3 b3 c3"

    async def test_the_turn_is_kept_by_the_store(self, store: Store, opener: Opener, clock: ManualClock) -> None:
        await add(store, a=2, b=2)
        assert ids(await claim(store)) == "a1"
        again = await opener("shop", clock)
        assert ids(await claim(again)) == "b1"
        assert ids(await claim(store)) == "a2"
        if again is not store:
            await again.close()

    async def test_a_second_tenant_waits_one_slot_behind_a_thousand_jobs(self, store: Store) -> None:
        await add(store, big=1_000)
        assert ids(await claim(store, 3)) == "big1 big2 big3"
        await add(store, small=1)
        assert ids(await claim(store, 2)) == "small1 big4"
        await store.jobs.enqueue([job("small2", group="small")])
        assert ids(await claim(store)) == "small2"

    async def test_a_name_that_comes_late_is_served_in_its_place(self, store: Store) -> None:
        await add(store, a=3, d=3)
        assert await one_by_one(store, 1) == "a1"
        await add(store, b=1)
        assert await one_by_one(store, 4) == "b1 d1 a2 d2"

    async def test_weights(self, store: Store) -> None:
        limits = QueueLimits(group=GroupLimits(weight=2), groups={"b": GroupLimits(weight=3), "c": GroupLimits()})
        await store.queues.set_limits({"q": limits})
        await add(store, a=5, b=5, c=3)
        assert ids(await claim(store, 20)) == "a1 a2 b1 b2 b3 c1 a3 a4 b4 b5 c2 a5 c3"

    async def test_a_turn_goes_on_in_the_next_claim(self, store: Store) -> None:
        await store.queues.set_limits({"q": QueueLimits(group=GroupLimits(weight=3))})
        await add(store, a=5, b=5)
        assert await one_by_one(store, 8) == "a1 a2 a3 b1 b2 b3 a4 a5"
        assert ids(await claim(store)) == "b4"

    async def test_a_larger_claim_gives_only_the_rest_of_a_turn(self, store: Store) -> None:
        await store.queues.set_limits({"q": QueueLimits(group=GroupLimits(weight=3))})
        await add(store, a=5, b=5)
        assert ids(await claim(store)) == "a1"
        assert ids(await claim(store, 4)) == "a2 a3 b1 b2"
        assert ids(await claim(store, 3)) == "b3 a4 a5"

    async def test_a_turn_ends_where_nothing_is_ready(self, store: Store) -> None:
        await store.queues.set_limits({"q": QueueLimits(group=GroupLimits(weight=3))})
        await add(store, a=1, b=2)
        assert await one_by_one(store, 2) == "a1 b1"
        await store.jobs.enqueue(jobs("a2 a3", group="a"))
        assert await one_by_one(store, 3) == "b2 a2 a3"

    async def test_jobs_without_a_group_are_one_more_with_a_weight_of_one(self, store: Store) -> None:
        await store.queues.set_limits({"q": QueueLimits(group=GroupLimits(weight=2))})
        await add(store, _=3, a=4)
        assert ids(await claim(store, 9)) == "_1 a1 a2 _2 a3 a4 _3"

    async def test_without_ready_groups_the_turns_stay_as_they_are(self, store: Store) -> None:
        await add(store, a=2)
        assert ids(await claim(store)) == "a1"
        await add(store, b=1)
        await finish(store, await claim(store))  # b1: the last served
        await claim(store)  # a2
        await add(store, _=2)
        assert await one_by_one(store, 2) == "_1 _2"
        await store.jobs.enqueue([job("_3"), job("b2", group="b"), job("a3", group="a")])
        assert await one_by_one(store, 3) == "b2 _3 a3"

    async def test_within_a_group_the_order_is_that_of_jobs(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue(
            [job("a9", group="a", priority=9), job("a1", group="a"), job("b2", group="b", priority=2)]
        )
        await clock.advance(1)
        await store.jobs.enqueue([job("al", group="a", lifo=True), job("b0", group="b"), job("a2", group="a")])
        assert ids(await claim(store, 9)) == "al b0 a1 b2 a2 a9"

    async def test_each_queue_has_its_own_turns(self, store: Store) -> None:
        await add(store, a=2, b=2)
        await store.jobs.enqueue([job(f"{group}{n}r", queue="r", group=group) for group in "ab" for n in (1, 2)])
        assert ids(await claim(store)) == "a1"
        assert ids(await store.jobs.claim(request(r=1))) == "a1r"
        assert ids(await store.jobs.claim(request(r=1, q=1))) == "b1r b1"

    async def test_what_is_given_back_returns_to_its_group(self, store: Store) -> None:
        await add(store, a=2, b=2)
        records = await claim(store, 2)
        await finish(store, records, GIVE_BACK)
        assert ids(await claim(store, 9)) == "a1 b1 a2 b2"

    async def test_a_repeated_token_moves_no_turn(self, store: Store) -> None:
        await add(store, a=3, b=3)
        asked = request(3, token="t")
        first = await store.jobs.claim(asked)
        again = await store.jobs.claim(asked)
        assert sorted(ids(again).split()) == sorted(ids(first).split()) == ["a1", "a2", "b1"]
        assert ids(await claim(store)) == "b2"


@pytest.mark.asyncio
class TestGroupLimits:
    async def test_a_group_at_its_concurrency_is_passed_over_and_loses_nothing(self, store: Store) -> None:
        limits = QueueLimits(group=GroupLimits(concurrency=1), groups={"b": GroupLimits(concurrency=2)})
        await store.queues.set_limits({"q": limits})
        await add(store, a=3, b=3, c=1)
        first = await claim(store, 20)
        assert ids(first) == "a1 b1 c1 b2"
        assert await claim(store, 20) == []
        await finish(store, [first[0]])
        (second,) = await claim(store, 20)
        assert second.id == "a2"
        await finish(store, [first[1], first[3], second])
        assert ids(await claim(store, 20)) == "b3 a3"

    async def test_a_group_at_its_rate_is_passed_over_and_loses_nothing(self, store: Store, clock: ManualClock) -> None:
        limits = QueueLimits(group=GroupLimits(rate=Rate(2, 1_000)), groups={"b": GroupLimits()})
        await store.queues.set_limits({"q": limits})
        await add(store, a=5, b=4)
        assert ids(await claim(store, 20)) == "a1 b1 a2 b2 b3 b4"
        await clock.advance(999)
        assert await claim(store, 20) == []
        await clock.advance(1)
        assert ids(await claim(store, 20)) == "a3 a4"
        await clock.advance(1_000)
        assert ids(await claim(store, 20)) == "a5"

    async def test_a_wake_when_a_groups_slot_is_free(self, store: Store) -> None:
        await store.queues.set_limits({"q": QueueLimits(group=GroupLimits(concurrency=1))})
        await add(store, a=2)
        first = await claim(store, 9)
        await claim(store, 9)
        await finish(store, first)
        assert await store.jobs.wait(["q"], 0)

    async def test_jobs_without_a_group_have_no_group_limits(self, store: Store) -> None:
        await store.queues.set_limits({"q": QueueLimits(group=GroupLimits(concurrency=1, rate=Rate(1, 1_000)))})
        await add(store, _=3, a=2)
        assert ids(await claim(store, 9)) == "_1 a1 _2 _3"
