"""Whatever a child started ends with it, however far it has gone away and however the child ends."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.pools.conftest import MakePool
from tests.pools.support import begun, runs, wait_until
from tests.pools.users import User
from workfleet.errors import CallTimeout, ChildDied
from workfleet.pools.options import ChildSpec
from workfleet.supervision import descendants

USER = ChildSpec.of(User)

everywhere = pytest.mark.parametrize("how", ["fork", "session", "double fork", "daemon", "program in a session"])


def left(folder: Path) -> int:
    """The pid of what stayed behind."""
    (file,) = folder.iterdir()
    return int(file.name)


@everywhere
async def test_a_timeout_ends_what_the_call_started(make_pool: MakePool, tmp_path: Path, how: str) -> None:
    pool = make_pool(USER).pool
    (folder := tmp_path / "left").mkdir()
    call = asyncio.create_task(pool.call("leave_behind_and_begin", (how, str(folder), str(tmp_path / "mark"))))
    await begun(tmp_path / "mark")
    pid = left(folder)
    assert runs(pid)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not runs(pid)  # at once: who is told that a call has ended may start it again
    assert await pool.call("echo", (1,)) == 1


@everywhere
async def test_a_child_that_dies_by_itself_takes_it_along(make_pool: MakePool, tmp_path: Path, how: str) -> None:
    pool = make_pool(USER).pool
    with pytest.raises(ChildDied):
        await pool.call("leave_behind_and_die", (how, str(tmp_path)))
    pid = left(tmp_path)
    await wait_until(lambda: not runs(pid))  # it is killed by now; the system may be slow to bury it


@everywhere
async def test_a_child_that_stops_gracefully_leaves_nothing(make_pool: MakePool, tmp_path: Path, how: str) -> None:
    pool = make_pool(USER).pool
    (pid,) = await pool.call("leave_behind", (how, str(tmp_path)))
    assert runs(pid)
    assert await pool.stop(5_000) == 0
    await wait_until(lambda: not runs(pid))  # it is killed by now; the system may be slow to bury it


async def test_the_descendants_of_other_children_are_left_alone(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool(USER, size=2).pool
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    stays = asyncio.create_task(
        pool.call("leave_behind_and_begin", ("daemon", str(tmp_path / "a"), str(tmp_path / "mark")))
    )
    child = await begun(tmp_path / "mark")
    with pytest.raises(CallTimeout):
        await pool.call(
            "leave_behind_and_begin", ("daemon", str(tmp_path / "b"), str(tmp_path / "other mark")), timeout_ms=1_500
        )
    assert not runs(left(tmp_path / "b"))
    assert runs(left(tmp_path / "a"))
    assert runs(child)
    stays.cancel()


def test_a_mark_is_never_given_twice_and_keeps_those_above(monkeypatch: pytest.MonkeyPatch) -> None:
    assert descendants.new_mark() != descendants.new_mark()
    assert descendants.new_mark().startswith(descendants.mark_of_children(os.getpid()))
    monkeypatch.setenv(descendants.VARIABLE, ":outer")
    assert descendants.with_mark(":inner") == ":outer:inner"
