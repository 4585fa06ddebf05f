"""Distributed locks: who holds one, how it is kept, how its holder learns that it is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from workfleet.clock import SystemClock
from workfleet.errors import LockBusy, LockLost, LockUnavailable, StoreUnavailable, UsageError
from workfleet.events import Event, LockAcquired, LockLostEvent
from workfleet.locks.locks import Locks
from workfleet.ports.clock import Clock
from workfleet.ports.stores import Store
from workfleet.stores.open import open_store
from workfleet.supervision.board import Board
from workfleet.testing.clock import TestClock

NOW = 1_800_000_000_000


class Faulty:
    """The locks of a store. `fault` says what happens to the next calls of a method: "before", "after" or "hang"."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.fault: dict[str, str] = {}
        self.calls: list[str] = []

    @property
    def locks(self) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store.locks, name)

        async def call(*args: Any) -> Any:
            self.calls.append(name)
            fault = self.fault.get(name)
            if fault == "before":
                raise StoreUnavailable("test", "it is down")
            if fault == "hang":
                await asyncio.Event().wait()
            answer = await method(*args)
            if fault == "after":
                raise StoreUnavailable("test", "the reply was lost")
            return answer

        return call


class Bench:
    """Two processes' locks on one store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store, self.clock = store, clock
        self.faulty = Faulty(store)
        self.events: list[Event] = []
        self.ours, self.theirs = self.locks("ours"), self.locks("theirs")

    def locks(self, owner: str, **options: Any) -> Locks:
        async def opened() -> Any:
            return self.faulty

        facts: dict[str, Any] = {
            "prefix": "lock", "default_ttl": timedelta(minutes=1), "retries": 0, "retry_delay": timedelta(0)
        }  # fmt: skip
        return Locks(opened, owner=owner, clock=self.clock, publish=self.events.append, **(facts | options))

    async def move(self, seconds: float) -> None:
        """Move the clock in small steps, with time for others to react to each."""
        assert isinstance(self.clock, TestClock)
        target = self.clock.now_ms() + round(seconds * 1000)
        while self.clock.now_ms() < target:
            self.clock.move_to(min(self.clock.now_ms() + 250, target))
            for _ in range(10):
                await asyncio.sleep(0)

    def told(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture(params=["memory", "sqlite"])
async def real(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    """On each store, in real time."""
    clock = SystemClock()
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    store = await open_store(url, app="test", clock=clock, create=True)
    yield Bench(store, clock)
    await store.close()


@pytest.fixture
async def bench() -> Bench:
    """In memory, on a clock that the test moves."""
    clock = TestClock(NOW)
    return Bench(await open_store("memory://", app="test", clock=clock, create=True), clock)


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
    with pytest.raises(ValueError, match="has no unit"):
        bench.ours.lock("a", ttl="10")


# Renewal


async def test_it_is_renewed_while_its_body_runs(bench: Bench) -> None:
    async with bench.ours.lock("a", ttl="3s") as lock:
        for _ in range(20):
            await bench.move(1)
            lock.check()
            with pytest.raises(LockBusy):
                async with bench.theirs.lock("a", wait="0s"):
                    raise AssertionError("never entered")
    assert 19 <= bench.faulty.calls.count("renew") <= 21
    assert bench.told(LockLostEvent) == []
    calls = len(bench.faulty.calls)
    await bench.move(10)
    assert len(bench.faulty.calls) == calls  # nothing goes on after the body


async def test_an_outage_shorter_than_the_safe_deadline_costs_nothing(bench: Bench) -> None:
    async with bench.ours.lock("a", ttl="9s") as lock:
        await bench.move(2.5)
        bench.faulty.fault = {"renew": "before"}
        await bench.move(3)
        bench.faulty.fault = {}
        await bench.move(6)
        lock.check()
    assert bench.told(LockLostEvent) == []


@pytest.mark.parametrize("fault", ["before", "after"])
async def test_a_longer_one_ends_the_body_at_the_safe_deadline(bench: Bench, fault: str) -> None:
    entered, ended_at = asyncio.Event(), list[int]()

    async def body() -> None:
        async with bench.ours.lock("a", ttl="9s"):
            entered.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended_at.append(bench.clock.now_ms() - NOW)

    running = asyncio.create_task(body())
    await entered.wait()
    bench.faulty.fault = {"renew": fault}
    await bench.move(5.5)
    assert not running.done()
    await bench.move(1)
    with pytest.raises(LockLost, match="lock 'lock:a' was lost"):
        await running
    assert 6_000 <= ended_at[0] <= 6_250
    assert len(bench.told(LockLostEvent)) == 1
    assert running.cancelling() == 0


async def test_a_store_that_hangs_loses_the_lock_as_well() -> None:
    """In real time: nobody waits for an answer beyond the safe deadline."""
    clock = SystemClock()
    bench = Bench(await open_store("memory://", app="test", clock=clock, create=True), clock)

    async def body() -> None:
        async with bench.ours.lock("a", ttl="1s"):
            bench.faulty.fault = {"renew": "hang"}
            await asyncio.sleep(10)

    with pytest.raises(LockLost):
        await body()


async def test_a_bug_in_the_store_loses_the_lock_as_well(bench: Bench) -> None:
    async def broken(*_args: Any) -> None:
        raise RuntimeError("a bug")

    async def body() -> None:
        async with bench.ours.lock("a", ttl="3s"):
            bench.faulty.renew = broken  # type: ignore[attr-defined]
            await asyncio.Event().wait()

    running = asyncio.create_task(body())
    await bench.move(2)
    with pytest.raises(LockLost):
        await running


async def test_an_operator_releases_it_and_the_body_is_told(bench: Bench) -> None:
    entered, checked = asyncio.Event(), list[str]()

    async def body() -> None:
        async with bench.ours.lock("a", ttl="3s") as lock:
            entered.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                try:
                    lock.check()
                except LockLost as lost:
                    checked.append(lost.name)
                raise

    running = asyncio.create_task(body())
    await entered.wait()
    assert await bench.theirs.release("a") is True
    assert await bench.theirs.release("a") is False
    async with bench.theirs.lock("a"):
        await bench.move(2)
        with pytest.raises(LockLost):
            await running
        assert await bench.ours.is_locked("a") == "yes"  # losing ours has not released theirs
    assert checked == ["lock:a"]


# The body and its cancellations


async def lose_at_once(bench: Bench) -> None:
    assert await bench.theirs.release("a")
    await bench.move(1.25)


@pytest.mark.parametrize("body_ends", ["in its own error", "swallowing the cancellation"])
async def test_how_the_body_of_a_lost_lock_ends(bench: Bench, body_ends: str) -> None:
    entered = asyncio.Event()

    async def body() -> str:
        async with bench.ours.lock("a", ttl="3s"):
            entered.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if body_ends == "in its own error":
                    raise ValueError("its own") from None
        return "never"

    running = asyncio.create_task(body())
    await entered.wait()
    await lose_at_once(bench)
    with pytest.raises(ValueError if body_ends == "in its own error" else LockLost):
        await running
    assert running.cancelling() == 0


async def test_a_body_that_ends_in_the_moment_of_the_loss_is_not_cancelled_later(bench: Bench) -> None:
    """What the body waits for has come already: the cancellation must not hit what follows it."""
    done: list[str] = []
    entered, go_on = asyncio.Event(), asyncio.Event()
    context = bench.ours.lock("a", ttl="3s")

    async def body() -> None:
        try:
            async with context:
                entered.set()
                await go_on.wait()
        except LockLost:
            done.append("lost")
        await asyncio.sleep(0)
        done.append("went on")

    running = asyncio.create_task(body())
    await entered.wait()
    go_on.set()  # the body is about to go on…
    context._lose()  # …when the lock is lost
    await running
    assert done == ["lost", "went on"]
    assert running.cancelling() == 0


@pytest.mark.parametrize("waits", [True, False], ids=["waiting", "about to end"])
async def test_somebody_elses_cancellation_is_not_swallowed(bench: Bench, *, waits: bool) -> None:
    """Both come in the same moment: the lock's own is taken back, the other one ends the task."""
    entered, go_on = asyncio.Event(), asyncio.Event()
    context = bench.ours.lock("a", ttl="3s")

    async def body() -> None:
        async with context:
            entered.set()
            await go_on.wait()

    running = asyncio.create_task(body())
    await entered.wait()
    if not waits:
        go_on.set()
    context._lose()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert running.cancelled()


async def test_a_cancelled_body_releases_its_lock(real: Bench) -> None:
    entered = asyncio.Event()

    async def body() -> None:
        async with real.ours.lock("a"):
            entered.set()
            await asyncio.Event().wait()

    running = asyncio.create_task(body())
    await entered.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await real.ours.list() == []


async def test_an_error_of_the_body_passes_and_the_lock_is_free(real: Bench) -> None:
    with pytest.raises(KeyError):
        async with real.ours.lock("a"):
            raise KeyError("x")
    assert await real.ours.list() == []


async def test_a_release_that_fails_does_not_fail_the_body(bench: Bench) -> None:
    async with bench.ours.lock("a", ttl="3s"):
        bench.faulty.fault = {"release": "before"}
    bench.faulty.fault = {}
    assert await bench.ours.is_locked("a") == "yes"
    await bench.move(3.25)
    assert await bench.ours.is_locked("a") == "no"  # it has expired by itself


# Code that blocks the loop


async def test_check_sees_that_time_has_run_out_even_where_nothing_could_renew(bench: Bench) -> None:
    async with bench.ours.lock("a", ttl="3s") as lock:
        bench.clock.move_to(NOW + 2_999)  # type: ignore[attr-defined]
        lock.check()
        bench.clock.move_to(NOW + 3_000)  # type: ignore[attr-defined]
        with pytest.raises(LockLost):
            lock.check()


async def test_with_a_board_somebody_else_renews_so_check_trusts_it(bench: Bench) -> None:
    board = Board.create(slots=1, clock=bench.clock)
    locks = bench.locks("ours", board=board)
    async with locks.lock("a", ttl="3s") as lock:
        (note,) = board.entries()
        assert (note.kind, note.name, note.ttl_ms) == ("lock", "lock:a", 3_000)
        bench.clock.move_to(NOW + 60_000)  # type: ignore[attr-defined]
        await bench.store.locks.acquire(note.name, note.owner, 3_000)  # what the keeper did meanwhile
        lock.check()
        async with locks.lock("b", ttl="3s") as unnoted:  # the board is full
            bench.clock.move_to(NOW + 64_000)  # type: ignore[attr-defined]
            await bench.store.locks.acquire(note.name, note.owner, 3_000)
            with pytest.raises(LockLost):
                unnoted.check()
            await bench.store.locks.acquire("lock:b", (await bench.ours.list())[0].owner, 3_000)
    assert board.entries() == []
    board.close()
