"""Distributed locks: who holds one, who waits for it, and what an outage leaves behind."""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.locks.bench import NOW, Bench, Faulty
from workfleet.errors import LockBusy, LockUnavailable, UsageError
from workfleet.events import LockAcquired
from workfleet.locks.locks import Locks
from workfleet.stores.open import open_store
from workfleet.testing.clock import TestClock


async def test_only_one_at_a_time(real: Bench) -> None:
    inside, most, entries = 0, 0, 0

    async def enter(locks: Locks) -> None:
        nonlocal inside, most, entries
        async with locks.lock("ledger", wait="30s"):
            inside += 1
            most, entries = max(most, inside), entries + 1
            await asyncio.sleep(0)
            inside -= 1

    many = [real.locks(f"process {number}", retry_delay=timedelta(0)) for number in range(10)]
    await asyncio.gather(*(enter(locks) for locks in many))
    assert (most, entries) == (1, 10)
    assert await real.ours.list() == []


async def test_fences_grow_across_owners_and_names(real: Bench) -> None:
    fences = []
    for locks, name in ((real.ours, "a"), (real.theirs, "a"), (real.ours, "b"), (real.ours, "a")):
        async with locks.lock(name) as lock:
            fences.append(lock.fence)
    assert fences == sorted(set(fences))
    assert [event.fence for event in real.told(LockAcquired)] == fences


async def test_fences_grow_across_restarts_and_a_clock_set_back(tmp_path: Path) -> None:
    fences = []
    for now in (NOW, NOW - 366 * 86_400_000):
        clock = TestClock(now)
        store = await open_store(f"sqlite:///{tmp_path}/jobs.db", app="test", clock=clock, create=True)
        async with Bench(store, clock).ours.lock("a") as lock:
            fences.append(lock.fence)
        await store.close()
    assert fences == [NOW * 1000, NOW * 1000 + 1]


async def test_busy_says_who_holds_it(real: Bench) -> None:
    async with real.theirs.lock("report"):
        with pytest.raises(LockBusy) as busy:
            async with real.ours.lock("report", wait="0s"):
                raise AssertionError("never entered")
        async with real.ours.lock("another"):
            pass
    assert (busy.value.name, busy.value.holder) == ("report", "theirs")
    assert str(busy.value) == "lock 'report' is held by theirs"
    async with real.ours.lock("report", wait="0s"):
        pass


async def test_what_an_operator_takes_away_is_what_he_saw(real: Bench) -> None:
    async with real.theirs.lock("a"):
        (seen,) = await real.ours.list()
        assert real.ours.name_of(seen) == "a"
    async with real.theirs.lock("a") as again:
        assert not await real.ours.take_away(seen)
        again.check()
        (seen,) = await real.ours.list()
        assert seen.fence == again.fence
    assert not await real.ours.take_away(seen)


async def test_a_lock_is_not_reentrant(real: Bench) -> None:
    async with real.ours.lock("a"):
        with pytest.raises(LockBusy, match="held by ours"):
            async with real.ours.lock("a", wait="0s"):
                raise AssertionError("never entered")


async def test_it_waits_as_long_as_it_is_told(bench: Bench) -> None:
    async with bench.theirs.lock("a"):

        async def want() -> str:
            try:
                async with bench.ours.lock("a", wait="2s"):
                    return "got it"
            except LockBusy:
                return "busy"

        waiting = asyncio.create_task(want())
        await bench.move(1.75)
        assert not waiting.done()
        await bench.move(0.5)
        assert await waiting == "busy"
        waiting = asyncio.create_task(want())
        await bench.move(1)
    await bench.move(0.5)
    assert await waiting == "got it"


async def test_without_wait_the_modules_retries_count(bench: Bench) -> None:
    locks = bench.locks("ours", retries=3, retry_delay=timedelta(seconds=1))
    async with bench.theirs.lock("a"):
        waiting = asyncio.create_task(locks.lock("a").__aenter__())
        await bench.move(6)
        with pytest.raises(LockBusy):
            await waiting
    assert bench.faulty.calls.count("acquire") == 1 + 1 + 3


class Impatient(TestClock):
    """Waiting takes no time but moves the clock, and is noted."""

    def __init__(self) -> None:
        super().__init__(NOW)
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.move_to(self.now_ms() + math.ceil(seconds * 1000))


@pytest.mark.parametrize(
    ("wait", "retries", "least_s", "most_s", "tries"),
    [("10s", 3, 0.05, 0.15, None), (None, 200, 0.1, 0.3, 200), ("0s", 3, 0, 0, 0), (None, 0, 0, 0, 0)],
)
async def test_waits_between_tries_are_jittered(
    wait: str | None, retries: int, least_s: float, most_s: float, tries: int | None
) -> None:
    """Those who wait for one lock must not all come at once."""
    clock = Impatient()
    store = await open_store("memory://", app="test", clock=clock, create=True)
    assert await store.locks.acquire("lock:a", "them:1", 3_600_000)
    locks = Bench(store, clock).locks("ours", retries=retries, retry_delay=timedelta(milliseconds=200))
    with pytest.raises(LockBusy):
        async with locks.lock("a", wait=wait):
            raise AssertionError("never entered")
    whole = clock.slept[:-1] if wait else clock.slept  # the last one is what is left
    assert all(least_s <= slept <= most_s for slept in whole)
    assert tries is None or len(whole) == tries
    if len(whole) > 50:
        assert max(whole) - min(whole) > (most_s - least_s) / 2


@pytest.mark.parametrize("fault", ["before", "after"])
async def test_an_outage_is_not_busy_and_leaves_no_lock_behind(real: Bench, fault: str) -> None:
    real.faulty.fault = {"acquire": fault}
    with pytest.raises(LockUnavailable, match="lock 'a': the store did not answer") as outage:
        async with real.ours.lock("a"):
            raise AssertionError("never entered")
    assert not isinstance(outage.value, LockBusy)
    real.faulty.fault = {}
    assert await real.ours.list() == []


async def test_an_outage_of_everything_is_told_as_what_it_was_met_at(real: Bench) -> None:
    real.faulty.fault = {"acquire": "before", "release": "before"}
    with pytest.raises(LockUnavailable):
        async with real.ours.lock("a"):
            raise AssertionError("never entered")


class SlowGrant(Faulty):
    """Its first `slow` grants take half of a TTL of 3 s to arrive."""

    def __init__(self, bench: Bench, slow: int) -> None:
        super().__init__(bench.store)
        self._bench, self._slow = bench, slow

    async def acquire(self, *args: Any) -> Any:
        self.calls.append("acquire")
        answer = await self._bench.store.locks.acquire(*args)
        if self._slow:
            self._slow -= 1
            assert isinstance(self._bench.clock, TestClock)
            self._bench.clock.move_to(self._bench.clock.now_ms() + 1_500)
        return answer


async def test_a_grant_that_comes_late_is_asked_for_once_more(bench: Bench) -> None:
    bench.faulty = SlowGrant(bench, 1)
    async with bench.ours.lock("a", ttl="3s") as lock:
        (held,) = await bench.ours.list()
        assert (held.fence, held.expires_ms) == (lock.fence, bench.clock.now_ms() + 3_000)
    assert bench.faulty.calls.count("acquire") == 2


async def test_a_store_too_slow_for_a_ttl_is_unavailable_and_keeps_no_lock(bench: Bench) -> None:
    bench.faulty = SlowGrant(bench, 2)
    with pytest.raises(LockUnavailable, match="longer than a third of the lock's TTL"):
        async with bench.ours.lock("a", ttl="3s"):
            raise AssertionError("never entered")
    assert await bench.ours.list() == []


async def test_a_waiter_that_is_cancelled_leaves_no_lock_behind(real: Bench) -> None:
    """The store gives it the lock in the moment in which nobody waits for the answer any more."""
    given = asyncio.Event()

    class SlowAnswer(Faulty):
        async def acquire(self, *args: Any) -> Any:
            answer = await real.store.locks.acquire(*args)
            given.set()
            await asyncio.sleep(10)
            return answer

    real.faulty = SlowAnswer(real.store)
    waiting = asyncio.create_task(real.ours.lock("a").__aenter__())
    await given.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await real.ours.list() == []


async def test_is_locked_has_three_answers(real: Bench) -> None:
    assert await real.ours.is_locked("a") == "no"
    async with real.theirs.lock("a"):
        assert await real.ours.is_locked("a") == "yes"
        assert await real.ours.is_locked("b") == "no"
    real.faulty.fault = {"held": "before"}
    assert await real.ours.is_locked("a") == "unknown"


async def test_what_cannot_be_a_lock(bench: Bench) -> None:
    with pytest.raises(UsageError, match="at least 1s"):
        bench.ours.lock("a", ttl="999ms")
    with pytest.raises(UsageError, match="cannot be empty"):
        bench.ours.lock("")
    with pytest.raises(UsageError, match=r"lock '\\udce9': its name is not valid Unicode"):
        bench.ours.lock("\udce9")
    with pytest.raises(ValueError, match="has no unit"):
        bench.ours.lock("a", ttl="10")
