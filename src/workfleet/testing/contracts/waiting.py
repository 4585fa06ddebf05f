"""Contract of `JobStore.wait` and `ScheduleStore.wait`, within a process."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import structs

from workfleet.model.outcome import GIVE_BACK
from workfleet.ports.stores import Store

from .harness import COMPLETED, FAILED, RAISED, ManualClock, claim, ended, job, jobs
from .schedules import schedule

_SOON_S = 10


async def waiting(store: Store, *queues: str) -> asyncio.Task[bool]:
    """A task that waits, once it does. A store may wake twice for one change, as it may be told in two ways."""
    for _ in range(3):
        task = asyncio.create_task(store.jobs.wait(queues or ("q",), 60_000))
        for _ in range(5):
            await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, no time
        if not task.done():
            return task
    raise AssertionError("it is woken again and again")


@pytest.mark.asyncio
class TestWaiting:
    async def test_until_the_time_is_over_by_the_clock(self, store: Store, clock: ManualClock) -> None:
        task = await waiting(store)
        await clock.advance(59_999)
        await asyncio.sleep(0)  # noqa: TID251
        assert not task.done()
        await clock.advance(1)
        assert await asyncio.wait_for(task, _SOON_S) is False
        assert await store.jobs.wait(["q"], 0) is False

    async def test_until_a_job_is_enqueued(self, store: Store) -> None:
        tasks = [await waiting(store, "p", "q"), await waiting(store)]
        await store.jobs.enqueue(jobs("a"))
        assert await asyncio.wait_for(asyncio.gather(*tasks), _SOON_S) == [True, True]

    async def test_a_delayed_job_wakes_too(self, store: Store) -> None:
        task = await waiting(store)
        await store.jobs.enqueue([job("a", delay_ms=500)])
        assert await asyncio.wait_for(task, _SOON_S)

    async def test_another_queue_does_not_wake(self, store: Store, clock: ManualClock) -> None:
        task = await waiting(store, "r")
        await store.jobs.enqueue(jobs("a"))
        await store.now_ms()
        assert await store.jobs.wait(["r"], 0) is False
        await clock.advance(60_000)
        assert await asyncio.wait_for(task, _SOON_S) is False

    async def test_what_came_since_the_last_claim_is_not_slept_over(self, store: Store) -> None:
        assert await claim(store) == []
        await store.jobs.enqueue(jobs("a"))
        assert await asyncio.wait_for(store.jobs.wait(["q"], 60_000), _SOON_S)

    async def test_what_came_before_the_last_claim_is_no_news(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a"))
        await store.jobs.settle([ended(record) for record in await claim(store, 5)])
        await claim(store)
        await waiting_in_vain(store)

    async def test_jobs_that_become_ready_or_delayed_again_wake(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a b c"))
        back, tried, failed = await claim(store, 3)
        for settlement in (ended(back, GIVE_BACK), ended(tried, RAISED)):
            task = await waiting(store)
            await store.jobs.settle([settlement])
            assert await asyncio.wait_for(task, _SOON_S)
        await store.jobs.settle([ended(failed, FAILED)])
        task = await waiting(store)
        await store.jobs.retry(["c"])
        assert await asyncio.wait_for(task, _SOON_S)

    async def test_follow_ups_wake_and_completion_does_not(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a b"))
        a, b = await claim(store, 2)
        await store.jobs.settle([ended(a)])
        task = await waiting(store, "q", "next")
        await store.jobs.settle([ended(b, structs.replace(COMPLETED, follow_up=(job("c", queue="next"),)))])
        assert await asyncio.wait_for(task, _SOON_S)

    async def test_a_cancelled_wait_leaves_nothing(self, store: Store) -> None:
        task = await waiting(store)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        await store.jobs.enqueue(jobs("a"))

    async def test_changed_schedules_wake_who_waits_for_schedules(self, store: Store) -> None:
        record = schedule("a")
        for change in (
            lambda: store.schedules.merge([record]),
            lambda: store.schedules.set_paused("a", paused=True),
            lambda: store.schedules.put(record, replace=True),
            lambda: store.schedules.remove("a"),
        ):
            task = asyncio.create_task(store.schedules.wait(60_000))
            await change()
            assert await asyncio.wait_for(task, _SOON_S)
        assert await store.schedules.wait(0) is False


async def waiting_in_vain(store: Store) -> None:
    """Whoever waits now sleeps."""
    (await waiting(store)).cancel()
