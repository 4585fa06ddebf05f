"""A call that uses more processor time than it may fails alone, whatever its code does; time that it waits is free."""

from __future__ import annotations

import asyncio
import resource
import time
from pathlib import Path

import pytest

from tests.pools.conftest import MakePool
from tests.pools.support import runs, wait_until
from tests.pools.users import User
from tests.pools.workers import Basic
from workfleet.errors import CpuTimeExceeded
from workfleet.events import ChildDied
from workfleet.pools.cpu_time import limit_by_system
from workfleet.pools.options import ChildSpec

BASIC, USER = ChildSpec.of(Basic), ChildSpec.of(User)


@pytest.mark.parametrize(("method", "below"), [("burn", False), ("burn", True), ("c_loop", False)])
async def test_a_call_that_burns_too_much_fails_alone(
    make_pool: MakePool, tmp_path: Path, method: str, *, below: bool
) -> None:
    made = make_pool(BASIC if method == "c_loop" else USER, size=2, cpu_time_ms=400)
    pool = made.pool
    await pool.wait_ready()
    before = set(pool.stats().pids)
    waiting = asyncio.create_task(pool.call("begin", (str(tmp_path / "begun"), 1.5)))
    arguments, named = ((str(tmp_path / "mark"),), {}) if method == "c_loop" else ((60,), {"below": below})
    with pytest.raises(CpuTimeExceeded) as caught:
        await pool.call(method, arguments, named)
    error = caught.value
    assert (error.pool, error.method, error.limit_ms, error.code) == ("test", method, 400, "cpu_time_exceeded")
    assert 400 < error.used_ms < 2_000
    (died,) = made.told(ChildDied)
    assert died.pid in before
    assert not runs(died.pid)
    assert await waiting == "done"  # waiting uses nothing
    await pool.wait_ready()
    assert await pool.call("echo", (1,)) == 1
    assert pool.stats().restarts == 0


async def test_many_calls_may_use_more_together(make_pool: MakePool) -> None:
    pool = make_pool(USER, cpu_time_ms=400).pool
    pid = await pool.call("pid")
    assert [await pool.call("burn", (0.1,)) for _ in range(6)] == ["done"] * 6
    assert await pool.call("pid") == pid


@pytest.mark.full
async def test_threads_beside_each_other_count_together(make_pool: MakePool) -> None:
    pool = make_pool(USER, cpu_time_ms=500).pool
    with pytest.raises(CpuTimeExceeded):
        await pool.call("burn_in_threads", (0.4, 4))


async def test_the_systems_own_limit_is_set_for_a_call_at_work_and_lifted_after_it(make_pool: MakePool) -> None:
    pool = make_pool(USER, cpu_time_ms=2_400).pool
    pid = await pool.call("pid")
    none = resource.RLIM_INFINITY
    # It is set from half of the limit on: that a busy machine looks a second late must not matter.
    burning = asyncio.create_task(pool.call("burn", (2.2,)))
    await wait_until(lambda: resource.prlimit(pid, resource.RLIMIT_CPU)[0] != none, 30)
    assert 4 <= resource.prlimit(pid, resource.RLIMIT_CPU)[0] <= 7
    assert await burning == "done"
    await wait_until(lambda: resource.prlimit(pid, resource.RLIMIT_CPU)[0] == none, 30)
    assert await pool.call("cpu_limit") == none


@pytest.mark.full
async def test_the_system_ends_the_call_where_the_parent_cannot_look(make_pool: MakePool) -> None:
    pool = make_pool(USER, cpu_time_ms=1_000_000).pool
    pid = await pool.call("pid")
    call = asyncio.create_task(pool.call("burn", (60,)))
    await asyncio.sleep(0.2)
    limit_by_system(pid, 100)
    until = time.monotonic() + 30
    while runs(pid) and time.monotonic() < until:
        time.sleep(0.05)  # the loop stands still meanwhile
    with pytest.raises(CpuTimeExceeded):
        await call
