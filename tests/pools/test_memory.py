"""The memory limit is enforced: in the middle of a call by a kill, below it by replacing the child after the call."""

from __future__ import annotations

import asyncio
import time
from typing import cast

import pytest

from tests.pools.conftest import MakePool
from tests.pools.support import runs, wait_until
from tests.pools.users import User
from workfleet.errors import MemoryLimitExceeded
from workfleet.events import ChildDied, ChildReplaced
from workfleet.model.policy import Backoff
from workfleet.pools.member import Member
from workfleet.pools.memory import MemoryJudge
from workfleet.pools.options import ChildSpec, PoolOptions, RestartPolicy
from workfleet.pools.usage import Meter

USER = ChildSpec.of(User)
MB = 1_000_000
QUICK = RestartPolicy(max_restarts=1, delay_ms=0, backoff=Backoff("fixed", 10, 10, "none"))


async def test_a_call_above_the_hard_limit_fails_alone_and_within_a_second(make_pool: MakePool) -> None:
    made = make_pool(USER, size=2, memory_bytes=100 * MB)
    pool = made.pool
    await pool.wait_ready()
    before = pool.stats().pids
    other = asyncio.create_task(pool.call("burn", (0.5,)))
    started = time.monotonic()
    with pytest.raises(MemoryLimitExceeded) as caught:
        await pool.call("hog", (300,))
    assert time.monotonic() - started < 3.0  # with the time that filling it takes
    error = caught.value
    assert (error.pool, error.method, error.limit) == ("test", "hog", 100 * MB)
    assert 100 * MB < error.used < 400 * MB
    assert await other == "done"
    await pool.wait_ready()
    (gone,) = set(before) - set(pool.stats().pids)
    assert not runs(gone)
    (died,) = made.told(ChildDied)
    assert (died.pid, died.method) == (gone, "hog")
    assert pool.stats().restarts == 0
    assert await pool.call("echo", (1,)) == 1


async def test_growth_to_three_times_the_limit_in_half_a_second_is_seen_near_the_limit(make_pool: MakePool) -> None:
    pool = make_pool(USER, memory_bytes=100 * MB).pool
    await pool.wait_ready()
    with pytest.raises(MemoryLimitExceeded) as caught:
        await pool.call("grow", (300, 0.5))
    assert 100 * MB < caught.value.used < 200 * MB


async def test_a_program_that_the_method_started_counts(make_pool: MakePool) -> None:
    pool = make_pool(USER, memory_bytes=100 * MB).pool
    with pytest.raises(MemoryLimitExceeded) as caught:
        await pool.call("grow_below", (150,), timeout_ms=20_000)
    assert caught.value.used > 100 * MB


async def test_what_forked_copies_share_is_counted_once(make_pool: MakePool) -> None:
    pool = make_pool(USER, memory_bytes=200 * MB, soft_memory_bytes=200 * MB).pool
    pid = await pool.call("pid")
    assert await pool.call("grow_below", (100,), {"copies": 3}) == []
    assert await pool.call("pid") == pid


async def test_above_the_soft_limit_the_child_is_replaced_after_its_call(make_pool: MakePool) -> None:
    made = make_pool(USER, memory_bytes=1_000 * MB, soft_memory_bytes=100 * MB)
    pool = made.pool
    pid = await pool.call("pid")
    assert await pool.call("hog", (150, 0.8)) == 150_000_000
    await wait_until(lambda: bool(made.told(ChildReplaced)), 30)
    (replaced,) = made.told(ChildReplaced)
    assert replaced.old_pid == pid
    assert "above the soft limit of 100 MB" in replaced.why
    await wait_until(lambda: not runs(pid))
    assert made.told(ChildDied) == []  # it stopped as it was asked to
    assert await pool.call("pid") == replaced.pid


async def test_a_quick_call_that_leaves_too_much_behind_has_the_child_replaced(make_pool: MakePool) -> None:
    made = make_pool(USER, memory_bytes=1_000 * MB, soft_memory_bytes=100 * MB)
    assert await made.pool.call("grow", (100, 0.0)) == 100
    await wait_until(lambda: bool(made.told(ChildReplaced)), 30)
    assert "above the soft limit" in made.told(ChildReplaced)[0].why


async def test_a_pool_that_is_never_idle_is_recycled_too(make_pool: MakePool) -> None:
    made = make_pool(USER, memory_bytes=1_000 * MB, soft_memory_bytes=100 * MB)
    pid = await made.pool.call("pid")

    async def leak() -> None:
        while not made.told(ChildReplaced):
            await made.pool.call("grow", (5, 0.1))  # each call holds more than the one before

    await asyncio.wait_for(asyncio.gather(leak(), leak(), leak()), 60)
    assert made.told(ChildReplaced)[0].old_pid == pid
    assert "above the soft limit" in made.told(ChildReplaced)[0].why


async def test_an_idle_child_above_the_hard_limit_is_replaced(make_pool: MakePool) -> None:
    made = make_pool(USER, memory_bytes=100 * MB)
    pid = await made.pool.call("pid")
    await made.pool.call("grow_when_idle", (150,))
    await wait_until(lambda: bool(made.told(ChildReplaced)), 30)
    (replaced,) = made.told(ChildReplaced)
    assert replaced.old_pid == pid
    assert "above its limit of 100 MB" in replaced.why
    assert made.pool.stats().restarts == 0


async def test_an_object_that_is_too_large_from_its_start_is_a_crash_loop(make_pool: MakePool) -> None:
    spec = ChildSpec("tests.pools.users:heavy", (150,))
    made = make_pool(spec, memory_bytes=100 * MB, restart=QUICK)
    await wait_until(lambda: made.pool.stats().state == "failed", 60)
    assert "above its limit of 100 MB" in made.pool.stats().reason
    assert len(made.told(ChildDied)) == 2


async def test_below_the_limits_nothing_happens(make_pool: MakePool) -> None:
    pool = make_pool(USER, memory_bytes=400 * MB).pool
    pid = await pool.call("pid")
    assert await pool.call("hog", (100, 0.6)) == 100_000_000
    assert await pool.call("pid") == pid


async def test_what_a_child_uses_is_told_also_where_nothing_is_limited(make_pool: MakePool) -> None:
    pool = make_pool(USER).pool
    await pool.wait_ready()
    burning = asyncio.create_task(pool.call("burn", (60,), timeout_ms=None))

    def told() -> bool:
        (child,) = pool.stats().children
        return child.memory_bytes is not None and (child.cpu_percent or 0) > 1

    await wait_until(told, 30)
    (child,) = pool.stats().children
    assert child.memory_bytes is not None
    assert 5 * MB < child.memory_bytes < 200 * MB
    assert child.cpu_percent is not None
    assert child.cpu_percent < 150
    burning.cancel()


def test_it_is_looked_at_sooner_the_faster_it_grows_and_the_nearer_it_is() -> None:
    options = PoolOptions(name="p", size=1, memory_bytes=100 * MB, soft_memory_bytes=100 * MB)
    judge = MemoryJudge(options, cast(Meter, None))
    member = cast(Member, None)  # nobody touches it below the limits
    pauses = [
        judge.judge(member, used * MB, now)
        for now, used in [(0.0, 10), (0.05, 10), (0.10, 11), (0.15, 60), (0.16, 70), (0.17, 99), (0.18, 98)]
    ]
    assert pauses == pytest.approx([0.05, 0.05, 0.05, 0.0204, 0.015, 0.005, 0.05], abs=1e-3)


def test_the_soft_limit_is_four_fifths_unless_given() -> None:
    assert PoolOptions(name="p", size=1).soft_limit_bytes is None
    assert PoolOptions(name="p", size=1, memory_bytes=1_000).soft_limit_bytes == 800
    assert PoolOptions(name="p", size=1, memory_bytes=1_000, soft_memory_bytes=900).soft_limit_bytes == 900
