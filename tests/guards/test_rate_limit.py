"""rate_limit: never more calls in any time of its length, no fewer than it allows, in a process and in the fleet."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from tests.guards.rig import NOW, Guards
from workfleet.errors import RateLimited, Snooze
from workfleet.events import CallLimited, StoreTrouble
from workfleet.guards.declare import rate_limit
from workfleet.guards.starts import Starts, Window
from workfleet.model.durations import DurationLike
from workfleet.ports.stores import Store
from workfleet.testing.clock import TestClock

# The window


@settings(deadline=None)
@given(
    limit=some.integers(1, 300),
    per_ms=some.integers(1, 5_000),
    steps=some.lists(some.integers(0, 400), min_size=1, max_size=400),
)
def test_no_time_of_its_length_has_more_than_its_limit(limit: int, per_ms: int, steps: Sequence[int]) -> None:
    window, taken, now_ms = Window(limit, per_ms), list[int](), 0
    starts: Starts = ()
    for step in steps:
        now_ms += step
        starts, wait_ms = window.take(starts, now_ms)
        if wait_ms == 0:
            taken.append(now_ms)
            assert sum(at_ms > now_ms - per_ms for at_ms in taken) <= limit
        else:
            assert window.take(starts, now_ms + wait_ms)[1] == 0, "what it says of the wait is true"
            if limit <= 128:
                assert sum(at_ms > now_ms - per_ms for at_ms in taken) == limit, "it refuses only where it must"
        assert len(starts) <= 130


def test_after_a_burst_the_full_rate_is_back() -> None:
    window = Window(5, 1_000)
    starts: Starts = ()
    for burst in range(3):
        at_ms = burst * 1_000
        for _ in range(5):
            starts, wait_ms = window.take(starts, at_ms)
            assert wait_ms == 0
        assert window.take(starts, at_ms)[1] == 1_000
        assert window.take(starts, at_ms + 999)[1] == 1


def test_starts_that_are_put_together_free_their_places_late_and_never_early() -> None:
    window, taken = Window(200, 12_800), list[int]()
    starts: Starts = ()
    for now_ms in range(0, 60_000, 7):
        starts, wait_ms = window.take(starts, now_ms)
        assert len(starts) <= 130
        if wait_ms == 0:
            taken.append(now_ms)
    for index in range(len(taken) - 200):
        assert 12_800 <= taken[index + 200] - taken[index] <= 12_800 + 2 * 100
    assert len(taken) > 900


def test_a_clock_that_was_set_back_shuts_nobody_out_for_long() -> None:
    window = Window(1, 1_000)
    starts, _ = window.take((), 1_000_000)
    starts, wait_ms = window.take(starts, 0)
    assert wait_ms <= 2_000


# In a process


async def limited(limit: int = 2, per: DurationLike = "10s", **options: Any) -> tuple[Guards, list[str], Any]:
    guards, calls = await Guards.on_memory(), list[str]()
    return guards, calls, bound(guards, calls, limit, per, **options)


def bound(
    guards: Guards, calls: list[str], limit: int, per: DurationLike, place: Any = "method", **options: Any
) -> Any:
    @rate_limit(limit, per, **options)
    async def work(host: str) -> None:
        calls.append(host)

    return guards.bind(work, ("host",), place=place)


async def test_one_more_is_refused_until_its_time() -> None:
    guards, calls, call = await limited()
    await call(host="a")
    await guards.move(4)
    await call(host="b")
    said = "'work' is at its limit of 2 calls in 10 s; try again in 6 s"
    with pytest.raises(RateLimited, match=said) as refused:
        await call(host="c")
    assert (refused.value.limit, refused.value.per_ms, refused.value.retry_after_ms) == (2, 10_000, 6_000)
    assert guards.events == [CallLimited(name="work", retry_after_ms=6_000)]
    await guards.move(6)
    await call(host="d")
    with pytest.raises(RateLimited):
        await call(host="e")
    assert calls == ["a", "b", "d"]


async def test_each_value_of_the_key_has_its_limit() -> None:
    guards, calls, call = await limited(1, key="{host}")
    await call(host="a")
    await call(host="b")
    with pytest.raises(RateLimited, match="'work a' is at its limit"):
        await call(host="a")
    for number in range(2_000):
        await call(host=str(number))
    await guards.move(10)
    await call(host="a")
    assert calls.count("a") == 2


async def test_who_waits_goes_in_the_order_in_which_he_came() -> None:
    guards, calls, call = await limited(2, on_limit="wait")
    calling = [asyncio.create_task(call(host=str(number))) for number in range(6)]
    for seconds, gone in ((0, 2), (9.75, 2), (0.25, 4), (9.75, 4), (0.25, 6)):
        await guards.move(seconds)
        await settled()
        assert calls == [str(number) for number in range(gone)]
    await asyncio.gather(*calling)
    assert guards.events == []


async def test_nobody_overtakes_one_who_waits_and_whose_timer_is_late() -> None:
    guards, calls, call = await limited(1, on_limit="wait")
    await call(host="a")
    first = asyncio.create_task(call(host="b"))
    await settled()
    guards.clock._now_ms += 10_000  # the place is free, and the first one has not woken yet
    second = asyncio.create_task(call(host="c"))
    await settled()
    assert calls == ["a"]
    guards.clock.move_to(guards.clock.now_ms() + 1)
    await asyncio.wait_for(first, 5)
    assert calls == ["a", "b"]
    await settled()
    await guards.move(10.25)
    await asyncio.wait_for(second, 5)
    assert calls == ["a", "b", "c"]


async def test_who_is_cancelled_while_he_waits_holds_up_nobody() -> None:
    guards, calls, call = await limited(1, on_limit="wait")
    await call(host="a")
    first, second = asyncio.create_task(call(host="b")), asyncio.create_task(call(host="c"))
    await settled()
    first.cancel()
    await asyncio.wait([first])
    await guards.move(10)
    await asyncio.wait_for(second, 5)
    assert calls == ["a", "c"]


async def test_a_refused_run_is_put_off_to_when_there_is_a_place_for_it() -> None:
    guards = await Guards.on_memory()
    calls: list[str] = []
    call = bound(guards, calls, 2, "10s", place="run")
    waits = []
    for number in range(8):
        try:
            await call(host=str(number))
        except Snooze as snooze:
            waits.append(snooze.after)
    assert calls == ["0", "1"]
    assert waits == [timedelta(seconds=seconds) for seconds in (10, 10, 20, 20, 30, 30)]
    await guards.move(30)
    await call(host="8")
    await call(host="9")
    with pytest.raises(Snooze) as snoozed:
        await call(host="10")
    assert snoozed.value.after == timedelta(seconds=10)  # what was promised before is over


# In the fleet


async def test_it_holds_in_the_fleet(store: Store, clock: TestClock) -> None:
    processes = [Guards(store, clock, f"worker-{number}") for number in range(4)]
    calls: list[str] = []
    bounds = [bound(process, calls, 10, "1m", scope="fleet") for process in processes]
    for burst in (1, 2, 3):
        calling = [call(host="a") for call in bounds * 10]
        ended = await asyncio.gather(*calling, return_exceptions=True)
        refused = [each for each in ended if isinstance(each, RateLimited)]
        assert (len(calls), len(refused)) == (10 * burst, 30)
        assert {each.retry_after_ms for each in refused} == {60_000}
        clock.move_to(clock.now_ms() + 60_000)
    assert await store.keys.get("rate work") is not None
    clock.move_to(clock.now_ms() + 60_000)
    assert await store.keys.get("rate work") is None


async def test_those_who_wait_in_several_processes_all_get_their_turn(store: Store, clock: TestClock) -> None:
    processes = [Guards(store, clock, f"worker-{number}") for number in range(3)]
    calls: list[str] = []
    bounds = [bound(process, calls, 2, "1s", scope="fleet", on_limit="wait") for process in processes]
    calling = [asyncio.create_task(call(host="a")) for call in bounds * 2]
    for gone in (2, 4, 6):
        async with asyncio.timeout(30):
            while len(calls) < gone or len(clock.sleepers) < min(3, 6 - gone):
                await asyncio.sleep(0.001)
        assert len(calls) == gone
        clock.move_to(clock.now_ms() + 1_000)
    await asyncio.gather(*calling)
    assert clock.now_ms() == NOW + 3_000


async def test_each_value_of_the_key_has_its_limit_in_the_fleet(store: Store, clock: TestClock) -> None:
    first, second = Guards(store, clock), Guards(store, clock, "worker-2")
    calls: list[str] = []
    one, other = (bound(each, calls, 1, "1m", scope="fleet", key="host") for each in (first, second))
    await one(host="a")
    await other(host="b")
    for call, host in ((one, "b"), (other, "a")):
        with pytest.raises(RateLimited):
            await call(host=host)


async def test_without_the_store_each_process_goes_by_its_own_calls(store: Store, clock: TestClock) -> None:
    first, second = Guards(store, clock), Guards(store, clock, "worker-2")
    calls: list[str] = []
    one, other = (bound(each, calls, 3, "1m", scope="fleet") for each in (first, second))
    await one(host="a")
    await one(host="a")
    for each in (first, second):
        each.keys.down = {"get", "put_if_absent", "replace"}
    await one(host="a")  # its third: those that the store knows of count, too
    for _ in range(3):
        await other(host="b")
    for call in (one, other):
        with pytest.raises(RateLimited):
            await call(host="c")
    for each in (first, second):
        each.keys.down = set()
    await other(host="b")  # of the fleet's calls the store has seen two
    with pytest.raises(RateLimited):
        await one(host="a")
    assert [event.what for event in first.events if isinstance(event, StoreTrouble)] == ["the rate of work"]


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)
