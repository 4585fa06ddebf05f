"""`PoolDouble` by itself: copies, crashes, hooks, streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from workfleet import (
    CallTimeout,
    ChildDied,
    MemoryLimitExceeded,
    PayloadRejected,
    UsageError,
    health_check,
    on_shutdown,
    on_start,
    process,
    public,
)
from workfleet.pools.options import PoolOptions
from workfleet.testing import PoolDouble, TestClock


@process("sums")
class Sums:
    def __init__(self) -> None:
        self.hooks: list[str] = []
        self.well = True

    @health_check
    async def check(self) -> bool:
        return self.well

    @on_start
    async def start(self) -> None:
        self.hooks.append("start")

    @on_shutdown
    def stop(self) -> None:
        self.hooks.append("stop")

    @public
    def add(self, numbers: list[int], *, more: int = 0) -> list[int]:
        numbers.append(more)
        return numbers

    @public
    async def each(self, count: int) -> AsyncIterator[int]:
        for number in range(count):
            yield number

    @public
    def lines(self) -> Iterator[object]:
        yield "one"
        yield lambda: None


def make(options: PoolOptions | None = None, clock: TestClock | None = None) -> tuple[PoolDouble, list[Sums]]:
    made: list[Sums] = []

    async def new() -> Sums:
        made.append(Sums())
        return made[-1]

    return PoolDouble("sums", new, options=options, clock=clock), made


async def test_arguments_and_results_are_copies() -> None:
    double, made = make()
    numbers = [1]
    assert await double.call("add", (numbers,), {"more": 2}) == [1, 2]
    assert numbers == [1]
    assert await double.call("add", ([],)) == [0]
    assert double.calls == ["add", "add"]
    assert len(made) == 1


async def test_a_crash_kills_one_call_and_the_object() -> None:
    double, made = make()
    await double.call("add", ([],))
    double.crash_next()
    double.crash_next(signal="SIGTERM")
    for signal in ("SIGKILL", "SIGTERM"):
        with pytest.raises(ChildDied, match=rf"of pool 'sums' died in add \(signal {signal}\)") as died:
            await double.call("add", ([],))
        assert (died.value.pool, died.value.method, died.value.how) == ("sums", "add", f"signal {signal}")
    assert double.served is None
    assert await double.call("add", ([],)) == [0]
    assert [sums.hooks for sums in made] == [["start"]] * len(made)
    assert double.served is made[-1] is not made[0]


async def test_streams_yield_copies_and_can_die() -> None:
    double, _ = make()
    assert [number async for number in double.stream("each", (3,))] == [0, 1, 2]
    items = double.stream("lines")
    assert await anext(items) == "one"
    with pytest.raises(PayloadRejected, match=r"result of sums\.lines"):
        await anext(items)
    double.crash_next()
    with pytest.raises(ChildDied):
        await anext(double.stream("each", (3,)))


async def test_shutdown_hooks_run_once_at_the_end() -> None:
    double, made = make()
    await double.aclose()
    await double.call("add", ([],))
    await double.aclose()
    await double.aclose()
    assert [sums.hooks for sums in made] == [["start", "stop"]]


async def test_a_call_can_take_too_much_memory() -> None:
    double, made = make(PoolOptions(name="sums", size=1, memory_bytes=100_000_000))
    double.exceed_memory_next()
    double.exceed_memory_next(used="1GB")
    for used in (101_000_000, 1_000_000_000):
        with pytest.raises(MemoryLimitExceeded) as exceeded:
            await double.call("add", ([],))
        assert (exceeded.value.pool, exceeded.value.method) == ("sums", "add")
        assert (exceeded.value.used, exceeded.value.limit) == (used, 100_000_000)
    assert await double.call("add", ([],)) == [0]
    assert len(made) == 3
    assert [sums.hooks for sums in made] == [["start"]] * 3  # no shutdown hook of a killed child
    with pytest.raises(UsageError, match="is within the memory limit of pool 'sums', 100 MB"):
        double.exceed_memory_next(used="100MB")
    with pytest.raises(UsageError, match="has no memory limit that a call could exceed"):
        make()[0].exceed_memory_next()


async def test_a_call_can_pass_its_timeout() -> None:
    double, made = make(PoolOptions(name="sums", size=1, call_timeout_ms=5_000))
    double.time_out_next()
    with pytest.raises(CallTimeout, match=r"sums\.add did not end within 5 s"):
        await double.call("add", ([],))
    assert await double.call("add", ([],)) == [0]
    assert len(made) == 2
    with pytest.raises(UsageError, match="no call timeout"):
        make(PoolOptions(name="sums", size=1, call_timeout_ms=None))[0].time_out_next()


async def test_what_is_said_of_the_next_calls_happens_in_that_order() -> None:
    double, _ = make()
    double.time_out_next()
    double.crash_next()
    for error in (CallTimeout, ChildDied):
        with pytest.raises(error):
            await double.call("add", ([],))
    assert await double.call("add", ([],)) == [0]


async def test_calls_take_time_on_the_clock_up_to_the_timeout() -> None:
    clock = TestClock(0)
    double, made = make(PoolOptions(name="sums", size=1, call_timeout_ms=60_000), clock)

    async def ends_at(method: str = "add") -> int:
        call = asyncio.ensure_future(double.call(method, ([],)))
        while not call.done():
            await asyncio.sleep(0)
            if clock.sleepers:
                (sleeper,) = clock.sleepers
                clock.move_to(sleeper.due_ms)
        await call
        return clock.now_ms()

    assert await ends_at() == 0
    double.takes("10s")
    assert await ends_at() == 10_000
    double.takes("1m", method="add")
    assert await ends_at() == 70_000
    double.takes("5m", method="add")
    with pytest.raises(CallTimeout, match="within 60 s"):
        await ends_at()
    assert clock.now_ms() == 130_000
    assert double.served is None
    double.takes(None, method="add")
    assert await ends_at() == 130_000
    assert len(made) == 2
    with pytest.raises(UsageError, match="no clock"):
        make()[0].takes("1s")


async def test_a_health_check_is_asked_and_an_ill_object_replaced() -> None:
    double, made = make()
    assert await double.check_health() is None
    await double.call("add", ([],))
    assert await double.check_health() is None
    made[0].well = False
    assert await double.check_health() == "check returned False"
    assert made[0].hooks == ["start", "stop"]
    assert await double.call("add", ([],)) == [0]
    assert len(made) == 2
