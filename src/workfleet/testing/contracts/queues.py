"""Contract of `QueueStore`, and of what pausing and concurrency do to claims."""

from __future__ import annotations

import asyncio

import pytest

from workfleet.model.limits import GroupLimits, QueueLimits, QueueRecord, Rate
from workfleet.model.outcome import GIVE_BACK
from workfleet.ports.jobs import TakeOver
from workfleet.ports.stores import Store

from .harness import (
    COMPLETED,
    CRASHED,
    FAILED,
    RAISED,
    ManualClock,
    Opener,
    claim,
    ended,
    finish,
    ids,
    job,
    jobs,
    request,
    state,
)

LIMITS = QueueLimits(
    concurrency=7,
    rate=Rate(100, 60_000),
    group=GroupLimits(weight=2, concurrency=3, rate=Rate(1, 5)),
    groups={"gold": GroupLimits(weight=9), "tenant \n'ü": GroupLimits(concurrency=1)},
)
TWO_AT_ONCE = {"q": QueueLimits(concurrency=2)}


@pytest.mark.asyncio
class TestQueues:
    async def test_all_are_those_with_jobs_or_about_which_something_was_said(self, store: Store) -> None:
        assert await store.queues.all() == {}
        await store.jobs.enqueue([job("a", queue="jobs"), job("b", queue="own", housekeeping=True)])
        await store.queues.set_limits({"limited": LIMITS})
        await store.queues.set_paused("paused", paused=True)
        assert await store.queues.all() == {
            "jobs": QueueRecord(),
            "limited": QueueRecord(limits=LIMITS),
            "own": QueueRecord(),
            "paused": QueueRecord(paused=True),
        }
        assert list(await store.queues.all()) == ["jobs", "limited", "own", "paused"]
        # Queues that never had a job are in nobody's counts.
        assert sorted(await store.jobs.counts()) == ["jobs", "own"]

    async def test_limits_are_replaced_and_pausing_is_another_matter(self, store: Store) -> None:
        await store.queues.set_paused("q", paused=True)
        await store.queues.set_limits({"q": LIMITS, "r": LIMITS})
        await store.queues.set_limits({"q": QueueLimits(concurrency=1)})
        assert await store.queues.all() == {
            "q": QueueRecord(paused=True, limits=QueueLimits(concurrency=1)),
            "r": QueueRecord(limits=LIMITS),
        }
        await store.queues.set_limits({"q": QueueLimits()})
        await store.queues.set_paused("q", paused=False)
        assert (await store.queues.all())["q"] == QueueRecord()

    async def test_pausing_says_whether_it_changed_anything(self, store: Store) -> None:
        answers = [await store.queues.set_paused("q", paused=paused) for paused in (False, True, True, False, False)]
        assert answers == [False, True, False, True, False]

    async def test_what_was_said_is_the_apps_and_survives_its_opening(
        self, store: Store, opener: Opener, clock: ManualClock
    ) -> None:
        await store.queues.set_limits({"q": LIMITS})
        await store.queues.set_paused("q", paused=True)
        again, other = await opener("shop", clock), await opener("other", clock)
        assert await again.queues.all() == {"q": QueueRecord(paused=True, limits=LIMITS)}
        assert await other.queues.all() == {}
        await other.jobs.enqueue(jobs("a"))
        await finish(other, await claim(other))
        for each in (again, other):
            if each is not store:
                await each.close()

    async def test_news_about_a_queue_wakes_who_waits_for_it(self, store: Store) -> None:
        for change in (
            lambda: store.queues.set_limits({"q": LIMITS}),
            lambda: store.queues.set_paused("q", paused=True),
            lambda: store.queues.set_paused("q", paused=False),
        ):
            await claim(store)
            task = asyncio.create_task(store.jobs.wait(["q"], 60_000))
            await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, no time
            await change()
            if (await store.queues.all())["q"].paused:
                task.cancel()  # whether pausing wakes is the store's business
                await asyncio.wait({task})
            else:
                assert await asyncio.wait_for(task, 10)


@pytest.mark.asyncio
class TestPausing:
    async def test_nothing_is_handed_out_and_nothing_is_lost(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue([*jobs("a b"), job("late", delay_ms=10), job("other", queue="r")])
        (running,) = await claim(store)
        assert await store.queues.set_paused("q", paused=True)
        assert await claim(store, 9) == []
        assert ids(await store.jobs.claim(request(q=9, r=9))) == "other"
        await store.jobs.enqueue(jobs("c"))
        await clock.advance(10)
        # What runs goes on, and what becomes ready waits.
        assert await store.jobs.renew([running.claim], 30_000) == [True]
        settled = await store.jobs.settle([ended(running, GIVE_BACK)], request(9))
        assert (settled.applied, settled.claimed) == ([True], [])
        await store.queues.set_paused("q", paused=False)
        assert ids(await claim(store, 9)) == "a b c late"

    async def test_a_repeated_token_still_gives_what_it_holds(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a b"))
        first = await store.jobs.claim(request(token="t"))
        await store.queues.set_paused("q", paused=True)
        assert await store.jobs.claim(request(token="t")) == first

    async def test_dead_owners_jobs_are_taken_over_all_the_same(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue(jobs("a"))
        await claim(store, lease_ms=10)
        await store.queues.set_paused("q", paused=True)
        await clock.advance(10)
        (taken,) = await store.jobs.take_over(TakeOver("reaper", "t2", 1_000))
        await finish(store, [taken], CRASHED)
        assert await claim(store) == []
        assert await state(store, "a") == "waiting"

    async def test_it_is_not_due(self, store: Store) -> None:
        await store.jobs.enqueue([job("a", delay_ms=10), job("b", delay_ms=20, queue="r")])
        await store.queues.set_paused("q", paused=True)
        assert await store.jobs.next_due_ms(["q"]) is None
        assert await store.jobs.next_due_ms(["q", "r"]) == await store.now_ms() + 20


@pytest.mark.asyncio
class TestConcurrency:
    async def test_at_most_so_many_at_once_by_all_workers(
        self, store: Store, opener: Opener, clock: ManualClock
    ) -> None:
        await store.queues.set_limits({"q": QueueLimits(concurrency=5)})
        await store.jobs.enqueue(jobs(" ".join(f"j{number:02}" for number in range(20))))
        again = await opener("shop", clock)
        given = await asyncio.gather(*(claim(each, 2, worker=f"w{n}") for n, each in enumerate((store, again) * 10)))
        running = [record for records in given for record in records]
        assert len(running) == len({record.id for record in running}) == 5
        assert await claim(again, 9) == []
        await finish(store, running[:3])
        assert len(await claim(again, 9)) == 3
        if again is not store:
            await again.close()

    @pytest.mark.parametrize("how", [COMPLETED, FAILED, RAISED, CRASHED, GIVE_BACK], ids=lambda how: how.kind)
    async def test_any_end_frees_the_slot_in_the_same_step_and_wakes(self, store: Store, how: object) -> None:
        await store.queues.set_limits(TWO_AT_ONCE)
        await store.jobs.enqueue(jobs("a b c"))
        first, _ = await claim(store, 9)
        assert await claim(store, 9) == []
        settled = await store.jobs.settle([ended(first, how)], request(9))  # type: ignore[arg-type]
        assert ids(settled.claimed) == ("a" if how in (CRASHED, GIVE_BACK) else "c")
        await finish(store, settled.claimed, COMPLETED)
        assert await store.jobs.wait(["q"], 0)

    async def test_a_dead_workers_slot_is_free_when_its_job_is_settled(self, store: Store, clock: ManualClock) -> None:
        await store.queues.set_limits(TWO_AT_ONCE)
        await store.jobs.enqueue(jobs("a b c d"))
        await claim(store, 9, worker="dead", lease_ms=1_000)
        await clock.advance(1_000)
        # Until somebody has decided about them they may still be running.
        assert await claim(store, 9) == []
        taken = await store.jobs.take_over(TakeOver("reaper", "t2", 1_000))
        assert await claim(store, 9) == []
        await finish(store, taken[:1], FAILED)
        assert ids(await claim(store, 9)) == "c"
        await finish(store, taken[1:], CRASHED)
        assert ids(await claim(store, 9)) == "b"

    async def test_a_lowered_limit_lets_what_runs_go_on(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a b c d"))
        running = await claim(store, 3)
        await store.queues.set_limits(TWO_AT_ONCE)
        assert await claim(store, 9) == []
        await finish(store, running[:1])
        assert await claim(store, 9) == []
        await finish(store, running[1:2])
        assert ids(await claim(store, 9)) == "d"
        await store.queues.set_limits({"q": QueueLimits(concurrency=0)})
        await store.jobs.enqueue(jobs("e"))
        await finish(store, running[2:])
        assert await claim(store, 9) == []

    async def test_it_is_the_queues_own(self, store: Store) -> None:
        await store.queues.set_limits(TWO_AT_ONCE)
        await store.jobs.enqueue([*jobs("a b c"), *jobs("d e f", queue="r")])
        assert ids(await store.jobs.claim(request(q=9, r=9))) == "a b d e f"

    async def test_the_limits_of_queue_and_group_both_hold(self, store: Store) -> None:
        await store.queues.set_limits({"q": QueueLimits(concurrency=3, group=GroupLimits(concurrency=2))})
        await store.jobs.enqueue([job(f"{group}{n}", group=group) for group in "ab" for n in range(4)])
        first = await claim(store, 9)
        assert ids(first) == "a0 b0 a1"
        await finish(store, first[1:2])
        assert ids(await claim(store, 9)) == "b1"
