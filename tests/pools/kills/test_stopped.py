"""A child that was stopped by SIGSTOP neither runs nor dies: it is found and replaced."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from tests.pools.kills.ward import OpenWard
from tests.pools.support import begun, runs, wait_until
from workfleet.errors import CallStuck, CallTimeout
from workfleet.events import ChildDied, ChildReplaced


async def test_idle_it_is_found_by_the_health_check(open_ward: OpenWard) -> None:
    ward = await open_ward(health_interval_ms=50, health_timeout_ms=1_000)
    first, second = ward.pool.stats().pids
    os.kill(first, signal.SIGSTOP)
    await wait_until(lambda: bool(ward.made.told(ChildReplaced)))
    ward.others()
    await ward.whole()
    (replaced,) = ward.made.told(ChildReplaced)
    assert replaced.old_pid == first
    assert replaced.why.startswith("did not answer a health check within 1000 ms")
    assert second in ward.pids
    assert not runs(first)


async def test_at_work_it_is_found_by_the_calls_timeout(open_ward: OpenWard, tmp_path: Path) -> None:
    ward = await open_ward()
    mark = tmp_path / "mark"
    error = await ward.fails(ward.pool.call("stop_itself", (str(mark),), timeout_ms=400), CallTimeout)
    assert error.method == "stop_itself"
    await ward.whole()
    (died,) = ward.made.told(ChildDied)
    assert not runs(died.pid)


@pytest.mark.full
async def test_at_work_without_a_timeout_it_is_found_to_make_no_progress(open_ward: OpenWard, tmp_path: Path) -> None:
    ward = await open_ward(stuck_after_ms=1_000, sweep_interval_ms=100, health_interval_ms=100)
    mark = tmp_path / "mark"
    error = await ward.fails(ward.pool.call("stop_itself", (str(mark),), timeout_ms=None), CallStuck)
    assert (error.method, error.stuck_ms) == ("stop_itself", 1_000)
    assert not runs(await begun(mark))
    await ward.whole()


@pytest.mark.full
async def test_with_calls_that_were_sent_to_it(open_ward: OpenWard) -> None:
    """Those that it had not begun are not lost with it."""
    ward = await open_ward(call_timeout_ms=600)
    for pid in ward.pids:
        os.kill(pid, signal.SIGSTOP)
    ward.others(200)
    await asyncio.sleep(0)
    failed = 0
    for number, call in ward.taken():
        try:
            assert await call == number
        except CallTimeout:
            failed += 1
    assert failed <= 2
    await ward.whole()


@pytest.mark.full
async def test_it_does_not_hold_up_the_pools_end(open_ward: OpenWard) -> None:
    ward = await open_ward()
    pids = ward.pids
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    assert await asyncio.wait_for(ward.pool.stop(500), 10) == 2
    assert not any(runs(pid) for pid in pids)


@pytest.mark.full
async def test_it_does_not_hold_up_a_recycling(open_ward: OpenWard) -> None:
    ward = await open_ward(graceful_timeout_ms=500)
    before = ward.pids
    for pid in before:
        os.kill(pid, signal.SIGSTOP)
    ward.pool.recycle()
    await wait_until(lambda: len(ward.made.told(ChildReplaced)) == 2)
    ward.others()
    await ward.whole()
    assert not before & ward.pids


@pytest.mark.full
async def test_stopped_and_continued_in_time_nothing_happens(open_ward: OpenWard) -> None:
    ward = await open_ward()
    before = ward.pids
    for pid in before:
        os.kill(pid, signal.SIGSTOP)
    ward.others(200)
    await asyncio.sleep(0)
    for pid in before:
        os.kill(pid, signal.SIGCONT)
    await ward.whole()
    assert ward.pids == before
