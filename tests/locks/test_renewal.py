"""A lock is renewed while its body runs, and its holder learns that it is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.locks.bench import NOW, Bench
from workfleet.clock import SystemClock
from workfleet.errors import LockBusy, LockLost
from workfleet.events import LockLostEvent
from workfleet.stores.open import open_store
from workfleet.supervision.board import Board


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
