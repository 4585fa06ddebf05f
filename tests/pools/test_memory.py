"""The memory limit is enforced: in the middle of a call by a kill, below it by replacing the child after the call."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.pools.conftest import MakePool
from tests.pools.support import runs, wait_until
from tests.pools.workers import Basic
from workfleet.errors import MemoryLimitExceeded
from workfleet.events import ChildDied, ChildReplaced
from workfleet.pools.options import ChildSpec

BASIC = ChildSpec.of(Basic)


async def test_a_call_above_the_hard_limit_fails_alone_and_within_a_second(make_pool: MakePool) -> None:
    made = make_pool(BASIC, size=2, memory_bytes=200_000_000)
    pool = made.pool
    await pool.wait_ready()
    before = pool.stats().pids
    started = time.monotonic()
    hog = asyncio.create_task(pool.call("hog", (600,)))
    with pytest.raises(MemoryLimitExceeded) as caught:
        await hog
    assert time.monotonic() - started < 2.0
    error = caught.value
    assert (error.pool, error.method, error.limit) == ("test", "hog", 200_000_000)
    assert 200_000_000 < error.used < 800_000_000
    await pool.wait_ready()
    (gone,) = set(before) - set(pool.stats().pids)
    assert not runs(gone)
    (died,) = made.told(ChildDied)
    assert (died.pid, died.method) == (gone, "hog")
    assert pool.stats().restarts == 0
    assert await pool.call("echo", (1,)) == 1


async def test_above_the_soft_limit_the_child_is_replaced_after_its_call(make_pool: MakePool) -> None:
    made = make_pool(BASIC, memory_bytes=1_000_000_000, soft_memory_bytes=100_000_000)
    pool = made.pool
    pid = await pool.call("pid")
    assert await pool.call("hog", (150, 0.8)) == 150_000_000
    await wait_until(lambda: bool(made.told(ChildReplaced)))
    (replaced,) = made.told(ChildReplaced)
    assert replaced.old_pid == pid
    assert "above the soft limit of 100 MB" in replaced.why
    assert made.told(ChildDied) == []  # it stopped as it was asked to
    assert await pool.call("pid") == replaced.pid


async def test_below_the_limits_nothing_happens(make_pool: MakePool) -> None:
    pool = make_pool(BASIC, memory_bytes=400_000_000).pool
    pid = await pool.call("pid")
    assert await pool.call("hog", (100, 0.6)) == 100_000_000
    assert await pool.call("pid") == pid


def test_the_soft_limit_is_four_fifths_unless_given() -> None:
    from workfleet.pools.options import PoolOptions

    assert PoolOptions(name="p", size=1).soft_limit_bytes is None
    assert PoolOptions(name="p", size=1, memory_bytes=1_000).soft_limit_bytes == 800
    assert PoolOptions(name="p", size=1, memory_bytes=1_000, soft_memory_bytes=900).soft_limit_bytes == 900
