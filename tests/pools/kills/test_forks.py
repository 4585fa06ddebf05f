"""A child that forks: copies never answer for it, and what stays in its group ends with it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.pools.kills.ward import OpenWard, Ward
from tests.pools.support import begun, kill, runs, wait_until
from workfleet.errors import CallTimeout, ChildDied


async def test_a_copy_that_comes_back_from_the_call_does_not_answer(open_ward: OpenWard) -> None:
    ward = await open_ward(size=1)
    (child,) = ward.pids
    copies = [await ward.pool.call("fork_and_return") for _ in range(5)]
    assert all(copies)  # the answer of the child, never the copy's 0
    assert ward.pids == {child}
    await wait_until(lambda: not any(runs(pid) for pid in copies))
    kill(child)  # it had not waited for its copies
    ward.others()
    await ward.whole()


@pytest.mark.full
async def test_a_copy_that_raises_does_not_answer(open_ward: OpenWard) -> None:
    ward = await open_ward(size=1)
    before = ward.pids
    for _ in range(5):
        assert await ward.pool.call("fork_and_raise") is None
    assert ward.pids == before
    for pid in before:
        kill(pid)
    await ward.whole()


@pytest.mark.parametrize(
    "how", ["killed", *(pytest.param(each, marks=pytest.mark.full) for each in ("recycled", "exits", "timeout"))]
)
async def test_a_copy_that_stays_ends_with_its_child(open_ward: OpenWard, tmp_path: Path, how: str) -> None:
    ward = await open_ward(size=1)
    mark = tmp_path / "mark"
    copy = await ward.pool.call("fork_and_stay", (str(mark),))
    assert await begun(mark) == copy
    ward.others()
    await _end(ward, how)
    await wait_until(lambda: not runs(copy))
    await ward.whole()


@pytest.mark.full
async def test_copies_of_copies_that_ignore_signals_end_at_the_calls_timeout(
    open_ward: OpenWard, tmp_path: Path
) -> None:
    ward = await open_ward()
    await ward.fails(ward.pool.call("hang_with_copies", (str(tmp_path / "mark"),), timeout_ms=500), CallTimeout)
    await ward.whole()


@pytest.mark.full
async def test_a_hundred_copies(open_ward: OpenWard) -> None:
    ward = await open_ward()
    copies = await ward.pool.call("fork_many", (100,))
    assert len(set(copies)) == 100
    for pid in ward.pids:
        kill(pid)
    ward.others()
    await ward.whole()
    assert not any(runs(pid) for pid in copies)


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="only there what has left its group can be found")
@pytest.mark.parametrize("how", ["killed", "recycled", "exits", "timeout"])
async def test_a_daemon_that_left_group_session_and_parent_ends_too(
    open_ward: OpenWard, tmp_path: Path, how: str
) -> None:
    ward = await open_ward(size=1)
    mark = tmp_path / "mark"
    await ward.pool.call("fork_a_daemon", (str(mark),))
    daemon = await begun(mark)
    try:
        await _end(ward, how)
        await wait_until(lambda: not runs(daemon))
        await ward.whole()
    finally:
        if runs(daemon):
            kill(daemon)


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="as above")
@pytest.mark.parametrize("how", ["killed", "recycled", "exits", "timeout"])
async def test_a_program_in_a_session_of_its_own_ends_too(open_ward: OpenWard, how: str) -> None:
    ward = await open_ward(size=1)
    program = await ward.pool.call("start_in_own_session")
    try:
        await _end(ward, how)
        await wait_until(lambda: not runs(program))
        await ward.whole()
    finally:
        if runs(program):
            kill(program)


async def _end(ward: Ward, how: str) -> None:
    """The one child that there is."""
    (pid,) = ward.pids
    if how == "killed":
        kill(pid)
    elif how == "recycled":
        ward.pool.recycle()
    elif how == "exits":
        await ward.fails(ward.pool.call("leave", (3,)), ChildDied)
    else:
        await ward.fails(ward.pool.call("swallow", (os.devnull,), timeout_ms=200), CallTimeout)
