"""The body of a lock and its cancellations: how it ends when the lock is lost, and what a release may cost it."""

from __future__ import annotations

import asyncio

import pytest

from tests.locks.bench import Bench
from workfleet.clock import SystemClock
from workfleet.errors import LockLost
from workfleet.stores.open import open_store


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


async def test_a_release_that_fails_is_tried_again_without_holding_up_the_body(bench: Bench) -> None:
    async with bench.ours.lock("a", ttl="1m"):
        bench.faulty.fault = {"release": "before"}
    assert await bench.ours.is_locked("a") == "yes"
    await bench.move(5)
    bench.faulty.fault = {}
    assert await bench.ours.is_locked("a") == "yes"
    await bench.move(5)
    assert await bench.ours.is_locked("a") == "no"  # long before it would have expired
    tries = bench.faulty.calls.count("release")
    assert 5 <= tries <= 7
    await bench.move(60)
    assert bench.faulty.calls.count("release") == tries


async def test_a_release_is_not_tried_for_longer_than_the_lock_lives(bench: Bench) -> None:
    async with bench.ours.lock("a", ttl="3s"):
        await bench.move(2)
        bench.faulty.fault = {"release": "before"}
    await bench.move(3.25)
    assert await bench.ours.is_locked("a") == "no"  # it has expired by itself
    tries = bench.faulty.calls.count("release")
    await bench.move(60)
    assert bench.faulty.calls.count("release") == tries
    assert bench.ours._tidying == set()


async def test_a_store_that_hangs_at_the_release_holds_up_the_body_for_a_second() -> None:
    clock = SystemClock()
    bench = Bench(await open_store("memory://", app="test", clock=clock, create=True), clock)
    async with bench.ours.lock("a"):
        bench.faulty.fault = {"release": "hang"}
        left = clock.monotonic()
    assert 0.9 < clock.monotonic() - left < 5
    bench.faulty.fault = {}
    while await bench.ours.is_locked("a") == "yes":
        await asyncio.sleep(0.01)


async def test_closing_gives_up_what_is_still_to_be_released(bench: Bench) -> None:
    async with bench.ours.lock("a"):
        bench.faulty.fault = {"release": "before"}
    await bench.ours.close()
    bench.faulty.fault = {}
    await bench.move(10)
    assert await bench.ours.is_locked("a") == "yes"
