"""Contract of rates: at most so many starts within any window, by the store's clock, across the fleet."""

from __future__ import annotations

import asyncio

import pytest

from workfleet.model.limits import GroupLimits, QueueLimits, Rate
from workfleet.model.outcome import GIVE_BACK, Ended
from workfleet.ports.jobs import TakeOver
from workfleet.ports.stores import Store

from .harness import ManualClock, Opener, claim, finish, ids, job, jobs, request

THREE_A_SECOND = QueueLimits(rate=Rate(3, 1_000))


async def add(store: Store, count: int, **said: object) -> None:
    await store.jobs.enqueue(jobs(" ".join(f"j{number:02}" for number in range(count)), **said))


async def starts(store: Store, limit: int = 50) -> int:
    """Claim and complete; how many there were."""
    records = await claim(store, limit)
    await finish(store, records)
    return len(records)


@pytest.mark.asyncio
class TestRates:
    async def test_no_window_ever_holds_more(self, store: Store, clock: ManualClock) -> None:
        await store.queues.set_limits({"q": THREE_A_SECOND})
        await add(store, 40)
        begin = await store.now_ms()
        started: list[int] = []
        for step in (0, 1, 398, 1, 1, 599, 1, 399, 1, 1_000, 9_000, 998, 1, 1):
            await clock.advance(step)
            limit = 1 if step == 0 else 2 if step == 398 else 50
            started += [await store.now_ms() - begin] * await starts(store, limit)
        assert started == [0, 1, 1, 1_000, 1_001, 1_001, *[2_401] * 3, *[11_401] * 3, *[12_401] * 3]
        assert max(sum(at <= other < at + 1_000 for other in started) for at in started) == 3

    async def test_a_start_leaves_the_window_at_the_very_instant(self, store: Store, clock: ManualClock) -> None:
        await store.queues.set_limits({"q": THREE_A_SECOND})
        await add(store, 20)
        assert await starts(store, 1) == 1
        await clock.advance(400)
        assert await starts(store) == 2
        await clock.advance(599)
        assert await starts(store) == 0
        await clock.advance(1)
        assert await starts(store) == 1
        await clock.advance(399)
        assert await starts(store) == 0
        await clock.advance(1)
        assert await starts(store) == 2
        await clock.advance(600)
        assert await starts(store) == 1

    async def test_a_start_is_counted_although_its_job_is_gone_and_another_has_its_id(self, store: Store) -> None:
        await store.queues.set_limits({"q": THREE_A_SECOND})
        given = []
        for _ in range(5):
            await add(store, 1)
            given.append(await starts(store))
            await store.jobs.delete(["j00"])
        assert given == [1, 1, 1, 0, 0]

    async def test_the_full_rate_returns_after_a_burst_and_after_a_pause(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.queues.set_limits({"q": THREE_A_SECOND})
        await add(store, 16)
        given = []
        for step in (0, 1_000, 1_000, 60_000, 1_000, 1_000):
            await clock.advance(step)
            given.append(await starts(store))
        assert given == [3, 3, 3, 3, 3, 1]

    async def test_next_due_says_when_the_next_may_start(self, store: Store, clock: ManualClock) -> None:
        now = await store.now_ms()
        await store.queues.set_limits({"q": THREE_A_SECOND})
        await add(store, 4)
        assert await store.jobs.next_due_ms(["q"]) is None
        await starts(store, 2)
        await clock.advance(300)
        await starts(store, 1)
        assert await store.jobs.next_due_ms(["q"]) == now + 1_000
        assert await store.jobs.next_due_ms(["q", "r"]) == now + 1_000
        await store.jobs.enqueue([job("soon", delay_ms=50)])
        assert await store.jobs.next_due_ms(["q"]) == now + 350
        await clock.advance(700)
        assert await starts(store, 9) == 2
        assert await store.jobs.next_due_ms(["q"]) is None
        await store.jobs.enqueue([job("more")])
        assert await store.jobs.next_due_ms(["q"]) == now + 1_300
        await store.queues.set_paused("q", paused=True)
        assert await store.jobs.next_due_ms(["q"]) is None

    async def test_next_due_of_groups_is_that_of_the_first_group(self, store: Store, clock: ManualClock) -> None:
        now = await store.now_ms()
        limits = QueueLimits(group=GroupLimits(rate=Rate(1, 1_000)), groups={"b": GroupLimits(rate=Rate(1, 700))})
        await store.queues.set_limits({"q": limits})
        await store.jobs.enqueue([job("a1", group="a"), job("a2", group="a")])
        assert ids(await claim(store, 9)) == "a1"
        assert await store.jobs.next_due_ms(["q"]) == now + 1_000
        await clock.advance(100)
        await store.jobs.enqueue([job("b1", group="b"), job("b2", group="b")])
        assert ids(await claim(store, 9)) == "b1"
        assert await store.jobs.next_due_ms(["q"]) == now + 800
        await store.queues.set_limits({"q": QueueLimits(rate=Rate(5, 1_000))})
        assert ids(await claim(store, 9)) == "a2 b2"

    async def test_it_holds_across_workers_and_openings(self, store: Store, opener: Opener, clock: ManualClock) -> None:
        await store.queues.set_limits({"q": THREE_A_SECOND})
        await add(store, 20)
        again = await opener("shop", clock)
        given = await asyncio.gather(*(claim(each, 2) for each in (store, again) * 5))
        assert sum(map(len, given)) == 3
        await clock.advance(1_000)
        given = await asyncio.gather(*(claim(each) for each in (store, again) * 5))
        assert sum(map(len, given)) == 3
        if again is not store:
            await again.close()

    async def test_starts_count_ended_or_not_and_again_when_claimed_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.queues.set_limits({"q": THREE_A_SECOND})
        await add(store, 5)
        for how in (GIVE_BACK, Ended(kind="returned"), Ended(kind="retry", after_ms=0)):
            await finish(store, await claim(store), how)
        assert await claim(store) == []
        await store.jobs.delete(["j01"])
        assert await claim(store) == []
        await clock.advance(1_000)
        assert len(await claim(store, 9)) == 3

    async def test_take_over_and_a_repeated_token_start_nothing(self, store: Store, clock: ManualClock) -> None:
        await store.queues.set_limits({"q": THREE_A_SECOND})
        await add(store, 5)
        asked = request(2, token="t1", lease_ms=10)
        assert len(await store.jobs.claim(asked)) == len(await store.jobs.claim(asked)) == 2
        await clock.advance(10)
        assert len(await store.jobs.take_over(TakeOver("reaper", "t2", 1_000))) == 2
        assert len(await claim(store, 9)) == 1

    async def test_a_changed_limit_counts_at_once(self, store: Store, clock: ManualClock) -> None:
        await store.queues.set_limits({"q": THREE_A_SECOND})
        await add(store, 20)
        assert await starts(store) == 3
        await store.queues.set_limits({"q": QueueLimits(rate=Rate(5, 1_000))})
        assert await starts(store) == 2
        await store.queues.set_limits({"q": QueueLimits(rate=Rate(2, 1_000))})
        await clock.advance(999)
        assert await starts(store) == 0
        await clock.advance(1)
        assert await starts(store) == 2
        await store.queues.set_limits({"q": QueueLimits()})
        assert await starts(store) == 13

    async def test_a_lowered_limit_is_due_when_enough_starts_have_left(self, store: Store, clock: ManualClock) -> None:
        now = await store.now_ms()
        await store.queues.set_limits({"q": THREE_A_SECOND})
        await add(store, 5)
        for _ in range(3):
            assert await starts(store, 1) == 1
            await clock.advance(100)
        await store.queues.set_limits({"q": QueueLimits(rate=Rate(1, 1_000))})
        assert await store.jobs.next_due_ms(["q"]) == now + 1_200
        await clock.advance(899)
        assert await starts(store) == 0
        await clock.advance(1)
        assert await starts(store) == 1

    async def test_a_queue_without_a_rate_is_not_slowed(self, store: Store) -> None:
        await store.queues.set_limits({"r": THREE_A_SECOND})
        await add(store, 20)
        assert await starts(store) == 20
