"""What does not end in time is ended, whatever it is doing, and the pool is at full size afterwards."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.pools.conftest import MakePool
from tests.pools.support import begun, runs, wait_until
from tests.pools.workers import Basic
from workfleet.errors import CallTimeout
from workfleet.pools.options import ChildSpec

BASIC = ChildSpec.of(Basic)


@pytest.mark.parametrize("method", ["begin", "c_loop", "abegin"])
async def test_a_call_that_takes_too_long_is_killed(make_pool: MakePool, tmp_path: Path, method: str) -> None:
    made = make_pool(BASIC)
    pool, mark = made.pool, tmp_path / "mark"
    await pool.wait_ready()
    started = time.monotonic()
    with pytest.raises(CallTimeout) as caught:
        await pool.call(method, (str(mark),), timeout_ms=400)
    assert 0.4 <= time.monotonic() - started < 1.5
    assert (caught.value.method, caught.value.timeout_ms) == (method, 400)
    assert not runs(await begun(mark))
    assert await pool.call("echo", (1,)) == 1
    stats = pool.stats()
    assert (stats.ready, stats.failures, stats.restarts) == (1, 1, 0)  # its end was the pool's own doing


async def test_the_pools_timeout_is_the_default_and_waiting_does_not_count(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool(BASIC, call_timeout_ms=600).pool
    await pool.wait_ready()
    calls = [pool.call("begin", (str(tmp_path / str(n)), 0.4)) for n in range(3)]
    assert await asyncio.gather(*calls) == ["done"] * 3
    with pytest.raises(CallTimeout):
        await pool.call("begin", (str(tmp_path / "x"), 60))
    assert await pool.call("begin", (str(tmp_path / "y"), 0.8), timeout_ms=None) == "done"


async def test_a_waiting_call_survives_the_timeout_of_the_one_before(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool(BASIC).pool
    await pool.wait_ready()
    late = asyncio.create_task(pool.call("begin", (str(tmp_path / "a"), 60), timeout_ms=200))
    await begun(tmp_path / "a")
    waiting = asyncio.create_task(pool.call("echo", ("next",)))
    with pytest.raises(CallTimeout):
        await late
    assert await waiting == "next"


@pytest.mark.parametrize("method", ["begin", "c_loop"])
async def test_cancelling_sync_code_returns_when_its_process_is_gone(
    make_pool: MakePool, tmp_path: Path, method: str
) -> None:
    pool = make_pool(BASIC).pool
    call = asyncio.create_task(pool.call(method, (str(tmp_path / "mark"),)))
    pid = await begun(tmp_path / "mark")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not runs(pid)
    assert await pool.call("echo", (1,)) == 1
    assert pool.stats().restarts == 0


async def test_async_code_is_cancelled_and_its_child_stays(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool(BASIC).pool
    call = asyncio.create_task(pool.call("abegin", (str(tmp_path / "mark"),)))
    pid = await begun(tmp_path / "mark")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await pool.call("pid") == pid
    assert await pool.call("was_left") == ["cancelled"]


async def test_async_code_that_refuses_to_be_cancelled_is_killed(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool(BASIC, cancel_grace_ms=200).pool
    call = asyncio.create_task(pool.call("abegin", (str(tmp_path / "mark"),), {"stubborn": True}))
    pid = await begun(tmp_path / "mark")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not runs(pid)
    assert await pool.call("pid") != pid


async def test_a_waiting_call_that_is_cancelled_never_runs(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool(BASIC).pool
    running = asyncio.create_task(pool.call("begin", (str(tmp_path / "a"), 0.5)))
    await begun(tmp_path / "a")
    waiting = asyncio.create_task(pool.call("begin", (str(tmp_path / "b"), 0)))
    await wait_until(lambda: pool.stats().queued == 1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert pool.stats().queued == 0
    assert await running == "done"
    await pool.call("echo", (1,))
    assert not (tmp_path / "b").exists()


async def test_cancelling_many_quick_calls_leaves_a_whole_pool(make_pool: MakePool) -> None:
    pool = make_pool(BASIC, size=2).pool
    await asyncio.gather(*(pool.call("echo", (n,)) for n in range(200)))
    calls = [asyncio.create_task(pool.call("echo", (n,))) for n in range(500)]
    await asyncio.sleep(0)
    for call in calls:
        call.cancel()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError | int) for result in results)
    await pool.wait_ready()
    assert await asyncio.gather(*(pool.call("echo", (n,)) for n in range(100))) == list(range(100))
    assert (pool.stats().busy, pool.stats().queued) == (0, 0)
