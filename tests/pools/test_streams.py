"""Generators in a child: items in order, no further ahead than the consumer has room for, and always closed."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from tests.pools.conftest import MakePool
from tests.pools.support import kill, wait_until
from tests.pools.workers import Basic, NotFunny
from workfleet.errors import CallTimeout, ChildDied
from workfleet.pools import wire
from workfleet.pools.options import ChildSpec

BASIC = ChildSpec.of(Basic)


@pytest.mark.parametrize("method", ["numbers", "anumbers"])
async def test_all_items_in_order(make_pool: MakePool, method: str) -> None:
    pool = make_pool(BASIC).pool
    assert [item async for item in pool.stream(method, (1_000,))] == list(range(1_000))
    assert [item async for item in pool.stream(method, (0,))] == []
    assert pool.stats().calls == 2


@pytest.mark.parametrize(("method", "ahead"), [("numbers", 0), ("anumbers", 1)])
async def test_the_generator_waits_for_its_consumer(
    make_pool: MakePool, tmp_path: Path, method: str, ahead: int
) -> None:
    """An async generator may hold one item more: it waits for room with that in its hand."""
    window = wire.STREAM_WINDOW + ahead
    pool = make_pool(BASIC).pool
    mark = tmp_path / "produced"
    stream = pool.stream(method, (40, str(mark)))
    assert await anext(stream) == 0
    await wait_until(lambda: mark.read_text() == str(window - 1))
    await asyncio.sleep(0.1)  # it would have run on by now
    assert mark.read_text() == str(window - 1)
    assert [await anext(stream) for _ in range(5)] == [1, 2, 3, 4, 5]
    await wait_until(lambda: mark.read_text() == str(window + 3))
    assert [item async for item in stream] == list(range(6, 40))


@pytest.mark.parametrize(("method", "word"), [("numbers", "closed"), ("anumbers", "aclosed")])
async def test_a_consumer_that_leaves_closes_the_generator(make_pool: MakePool, method: str, word: str) -> None:
    pool = make_pool(BASIC).pool
    pid = await pool.call("pid")
    async with contextlib.aclosing(pool.stream(method, (10**9,))) as stream:  # type: ignore[type-var]
        async for item in stream:
            if item == 20:
                break
    assert await pool.call("was_left") == [word]
    assert await pool.call("pid") == pid


async def test_an_error_comes_after_the_items(make_pool: MakePool) -> None:
    pool = make_pool(BASIC).pool
    stream = pool.stream("broken_numbers")
    assert await anext(stream) == 1
    with pytest.raises(NotFunny, match="no two"):
        await anext(stream)


async def test_the_timeout_is_between_two_items_and_not_the_consumers(make_pool: MakePool) -> None:
    pool = make_pool(BASIC, call_timeout_ms=300).pool
    await pool.wait_ready()
    items = []
    async for item in pool.stream("numbers", (12,)):
        items.append(item)
        await asyncio.sleep(0.05)  # 600 ms in all
    assert items == list(range(12))
    stream = pool.stream("slow_numbers")
    assert await anext(stream) == 1
    with pytest.raises(CallTimeout):
        await anext(stream)


async def test_a_death_in_the_middle(make_pool: MakePool) -> None:
    pool = make_pool(BASIC).pool
    stream = pool.stream("slow_numbers")
    assert await anext(stream) == 1
    kill(pool.stats().pids[0])
    with pytest.raises(ChildDied, match="signal SIGKILL"):
        await anext(stream)
    assert await pool.call("echo", (1,)) == 1
