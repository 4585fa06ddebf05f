"""A lock is renewed while its body runs, and its holder learns that it is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

from tests.locks.bench import NOW, Bench
from workfleet.clock import SystemClock
from workfleet.errors import LockBusy, LockLost
from workfleet.events import LockLostEvent
from workfleet.locks.held import Held
from workfleet.stores.open import open_store
from workfleet.supervision.board import Board
from workfleet.supervision.lock_keeper import LockKeeper
from workfleet.testing.clock import TestClock

T = TypeVar("T")


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


async def test_a_store_that_hangs_after_it_failed_is_not_waited_for_beyond_the_safe_deadline() -> None:
    """In real time. What is refused first and hangs then is a server that goes down with a network that swallows."""
    clock = SystemClock()
    bench = Bench(await open_store("memory://", app="test", clock=clock, create=True), clock)
    held_s = list[float]()

    async def body() -> None:
        started = clock.monotonic()
        async with bench.ours.lock("a", ttl="3s"):
            bench.faulty.fault = {"renew": "before"}
            try:
                await asyncio.sleep(1.7)
                bench.faulty.fault = {"renew": "hang"}
                await asyncio.sleep(10)
            finally:
                held_s.append(clock.monotonic() - started)

    with pytest.raises(LockLost):
        await body()
    assert 1.9 <= held_s[0] < 2.5


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


# Code that blocks the loop


def move_to(bench: Bench, ms: int) -> None:
    """The time passes at once: nothing of the loop gets its turn meanwhile."""
    assert isinstance(bench.clock, TestClock)
    bench.clock.move_to(NOW + ms)


def elsewhere(work: Coroutine[Any, Any, T]) -> T:
    """Do it in another thread, while the loop of this one stands still."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


async def test_check_fails_from_the_safe_deadline_on_where_nothing_could_renew(bench: Bench) -> None:
    async with bench.ours.lock("a", ttl="3s") as lock:
        move_to(bench, 1_999)
        lock.check()
        move_to(bench, 2_000)
        with pytest.raises(LockLost):
            lock.check()
        await bench.move(0.5)
        lock.check()  # the loop had its turn in time, and it was renewed


async def test_check_counts_from_the_try_that_got_the_lock(bench: Bench) -> None:
    async with bench.theirs.lock("a", ttl="1m"):
        waiting = asyncio.create_task(bench.ours.lock("a", ttl="3s", wait="1m").__aenter__())
        await bench.move(10)
    while not waiting.done():
        await bench.move(0.05)
    lock = await waiting
    lock.check()


async def test_with_a_board_check_believes_what_the_keeper_wrote(bench: Bench) -> None:
    """The keeper of another process; the loop of this one never gets its turn."""
    board = Board.create(slots=2, clock=bench.clock)
    locks = bench.locks("ours", board=board)
    keeper = LockKeeper(lambda: [board], bench.store.locks, clock=bench.clock, publish=bench.events.append)
    async with locks.lock("a", ttl="3s") as lock:
        for ms in range(1_000, 60_000, 1_000):
            move_to(bench, ms)
            elsewhere(keeper._look())
            lock.check()
        move_to(bench, 60_999)
        lock.check()
        move_to(bench, 61_000)
        with pytest.raises(LockLost):
            lock.check()  # the keeper stands still as well, as when a whole machine does
        elsewhere(keeper._look())
        lock.check()
    assert board.entries() == []
    board.close()


async def test_with_a_board_check_hears_of_a_loss_before_the_time_is_over(bench: Bench) -> None:
    board = Board.create(slots=1, clock=bench.clock)
    keeper = LockKeeper(lambda: [board], bench.store.locks, clock=bench.clock, publish=bench.events.append)

    async def body(lock: Held) -> None:
        elsewhere(bench.theirs.release("a"))
        move_to(bench, 1_000)
        lock.check()
        elsewhere(keeper._look())
        with pytest.raises(LockLost):
            lock.check()

    with pytest.raises(LockLost):
        async with bench.locks("ours", board=board).lock("a", ttl="3s") as lock:
            await body(lock)
    assert bench.clock.now_ms() == NOW + 1_000
    assert len(bench.told(LockLostEvent)) == 1
    board.close()


async def test_what_has_no_place_on_the_board_is_renewed_by_the_loop_alone(bench: Bench) -> None:
    board = Board.create(slots=1, clock=bench.clock)
    locks = bench.locks("ours", board=board)
    async with locks.lock("a", ttl="3s"), locks.lock("b", ttl="3s") as unnoted:
        assert [entry.name for entry in board.entries()] == ["lock:a"]
        await bench.move(10)
        unnoted.check()
    board.close()


async def test_a_body_that_keeps_the_loop_beyond_the_ttl_has_lost_its_lock(bench: Bench) -> None:
    """It ends of itself before anything could cancel it: somebody else may have been in there with it."""
    with pytest.raises(LockLost):
        async with bench.ours.lock("a", ttl="3s"):
            move_to(bench, 3_000)
    assert len(bench.told(LockLostEvent)) == 1


async def test_its_own_error_tells_more(bench: Bench) -> None:
    async def body() -> None:
        async with bench.ours.lock("a", ttl="3s"):
            move_to(bench, 3_000)
            raise KeyError("its own")

    with pytest.raises(KeyError):
        await body()
    assert len(bench.told(LockLostEvent)) == 1


async def test_after_its_body_a_lock_is_nobodys(bench: Bench) -> None:
    async with bench.ours.lock("a") as lock:
        lock.check()
    with pytest.raises(LockLost):
        lock.check()
    assert bench.told(LockLostEvent) == []
