"""`PoolDouble` by itself: copies, crashes, hooks, streams."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from workfleet import ChildDied, PayloadRejected, on_shutdown, on_start, process, public
from workfleet.testing import PoolDouble


@process("sums")
class Sums:
    def __init__(self) -> None:
        self.hooks: list[str] = []

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


def make() -> tuple[PoolDouble, list[Sums]]:
    made: list[Sums] = []

    async def new() -> Sums:
        made.append(Sums())
        return made[-1]

    return PoolDouble("sums", new), made


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
