"""Nothing is left behind: not when the parent is killed, not of what a child started, not in the parent itself."""

from __future__ import annotations

import asyncio
import gc
import sys
from pathlib import Path

import psutil
import pytest

from tests.pools.conftest import MakePool
from tests.pools.light import Light
from tests.pools.support import kill, runs, wait_until
from tests.pools.workers import Basic
from workfleet.errors import ChildDied
from workfleet.model.policy import Backoff
from workfleet.pools.options import ChildSpec, RestartPolicy

BASIC = ChildSpec.of(Basic)


@pytest.mark.parametrize("method", ["begin", "c_loop"])
async def test_a_killed_parent_takes_children_and_grandchildren_along(tmp_path: Path, method: str) -> None:
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.pools.parent", method, str(tmp_path / "mark"), stdout=asyncio.subprocess.PIPE
    )
    assert program.stdout is not None
    child, grandchild = map(int, (await program.stdout.readline()).split())
    assert runs(child)
    assert runs(grandchild)
    program.kill()
    await program.wait()
    await wait_until(lambda: not runs(child) and not runs(grandchild), 2.0)


async def test_a_loop_that_is_left_without_stopping_leaves_nobody(tmp_path: Path) -> None:
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.pools.leaver", str(tmp_path / "mark"), stdout=asyncio.subprocess.PIPE
    )
    assert program.stdout is not None
    pids = [int(pid) for pid in (await program.stdout.readline()).split()]
    assert len(pids) == 2
    assert await asyncio.wait_for(program.wait(), 5) == 0
    assert not any(runs(pid) for pid in pids)


async def test_what_a_child_started_ends_with_it(make_pool: MakePool) -> None:
    pool = make_pool(BASIC, size=2).pool
    killed_with, stopped_with = await pool.call("spawn"), await pool.call("spawn")
    assert runs(killed_with)
    with pytest.raises(ChildDied):
        await pool.call("die")
    await pool.stop(5_000)
    assert not runs(killed_with)
    assert not runs(stopped_with)


async def test_descriptors_and_zombies_are_flat_after_fifty_ends(make_pool: MakePool) -> None:
    at_once = RestartPolicy(max_restarts=1_000, delay_ms=0, backoff=Backoff("fixed", 1, 1, "none"))
    pool = make_pool(ChildSpec.of(Light), size=2, restart=at_once).pool
    await pool.wait_ready()

    async def one_round(number: int) -> None:
        before = set(pool.stats().pids)
        if number % 2:
            pool.recycle()
        else:
            for pid in before:
                kill(pid)
        await wait_until(lambda: not before & set(pool.stats().pids))
        await pool.wait_ready()
        assert await pool.call("echo", (number,)) == number

    await one_round(0)
    own = psutil.Process()
    gc.collect()
    descriptors, tasks = own.num_fds(), len(asyncio.all_tasks())
    for number in range(1, 26):
        await one_round(number)
    gc.collect()
    assert own.num_fds() == descriptors
    assert len(asyncio.all_tasks()) == tasks
    assert [child for child in own.children() if child.status() == psutil.STATUS_ZOMBIE] == []
    assert len(pool.stats().pids) == 2
