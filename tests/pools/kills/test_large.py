"""A child is killed while 64 MB are on their way to it or back from it."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from tests.pools.kills.victims import LARGE, Heavy
from tests.pools.kills.ward import OpenWard
from tests.pools.support import begun, kill
from workfleet.errors import ChildDied
from workfleet.events import ChildDied as ChildDiedEvent

_TICKS = 5
"""Of the loop: after so many the first bytes are written, if there is room for them."""


async def test_an_argument_that_the_child_never_reads_goes_to_the_next_one(open_ward: OpenWard) -> None:
    ward = await open_ward()
    for pid in ward.pids:
        os.kill(pid, signal.SIGSTOP)  # whoever is given the call cannot take it
    calls = [asyncio.create_task(ward.pool.call("length", (bytes(LARGE),))) for _ in range(2)]
    for _ in range(_TICKS):
        await asyncio.sleep(0)
    ward.others()
    for pid in ward.pids:
        kill(pid)
    assert await asyncio.gather(*calls) == [LARGE, LARGE]
    del calls
    await ward.whole()
    assert len(ward.made.told(ChildDiedEvent)) == 2


@pytest.mark.full
async def test_an_argument_that_the_child_is_reading(open_ward: OpenWard) -> None:
    """Killed at twenty instants of the way: the call runs elsewhere unless its method was entered."""
    ward = await open_ward(size=1)
    for number in range(20):
        (pid,) = ward.pids
        call = asyncio.create_task(ward.pool.call("length", (bytes(LARGE),)))
        until = time.monotonic() + number * 0.004
        while time.monotonic() < until and not call.done():
            await asyncio.sleep(0)
        kill(pid)
        (answer,) = await asyncio.gather(call, return_exceptions=True)
        if isinstance(answer, ChildDied):
            assert (answer.method, answer.pid) == ("length", pid)
        else:
            assert answer == LARGE
        ward.others(5)
        await ward.whole()
    assert len(ward.made.told(ChildDiedEvent)) == 20


@pytest.mark.full
async def test_a_value_whose_reading_kills_is_not_given_out_for_ever(open_ward: OpenWard, tmp_path: Path) -> None:
    ward = await open_ward()
    mark = tmp_path / "mark"
    call = asyncio.create_task(ward.pool.call("echo", (Heavy(str(mark)),)))
    pid = await begun(mark)
    kill(pid)
    mark.unlink()
    # Its method was never entered, but it had begun: reading it may be what kills.
    error = await ward.fails(call, ChildDied)
    assert (error.method, error.pid) == ("echo", pid)
    assert not mark.exists()
    await ward.whole()


async def test_an_answer_that_nobody_reads(open_ward: OpenWard, tmp_path: Path) -> None:
    ward = await open_ward()
    mark = tmp_path / "mark"
    call = asyncio.create_task(ward.pool.call("large", (str(mark),)))
    # What the child writes is not read: this loop stands still once the call is on its way.
    for _ in range(_TICKS):
        await asyncio.sleep(0)
    pid = _wait_for(mark)
    _wait_until_it_rests(pid)
    kill(pid)
    ward.others()
    (answer,) = await asyncio.gather(call, return_exceptions=True)
    # Whole, where it had been put down in one piece before the child was killed.
    if isinstance(answer, ChildDied):
        assert (answer.method, answer.pid) == ("large", pid)
    else:
        assert answer == b"\x07" * LARGE
    del call, answer
    await ward.whole()
    assert pid not in ward.pids


async def test_an_answer_that_is_being_made(open_ward: OpenWard, tmp_path: Path) -> None:
    ward = await open_ward()
    mark = tmp_path / "mark"
    call = asyncio.create_task(ward.pool.call("large_and_pausing", (str(mark),)))
    pid = await begun(mark)
    kill(pid)
    assert (await ward.fails(call, ChildDied)).pid == pid
    await ward.whole()


@pytest.mark.full
async def test_an_answer_on_its_way_at_twenty_instants(open_ward: OpenWard, tmp_path: Path) -> None:
    """It arrives whole or the call fails: never a part of it."""
    ward = await open_ward(size=1)
    for number in range(20):
        (pid,) = ward.pids
        mark = tmp_path / str(number)
        call = asyncio.create_task(ward.pool.call("large", (str(mark),)))
        await begun(mark)
        until = time.monotonic() + number * 0.004
        while time.monotonic() < until and not call.done():
            await asyncio.sleep(0)
        kill(pid)
        (answer,) = await asyncio.gather(call, return_exceptions=True)
        if isinstance(answer, ChildDied):
            assert (answer.method, answer.pid) == ("large", pid)
        else:
            assert answer == b"\x07" * LARGE
        del call, answer
        await ward.whole()


@pytest.mark.full
async def test_large_items_that_nobody_takes(open_ward: OpenWard, tmp_path: Path) -> None:
    ward = await open_ward()
    mark = tmp_path / "mark"
    got = 0

    async def consume() -> None:
        nonlocal got
        async for item in ward.pool.stream("large_items", (str(mark),)):
            got += 1
            assert len(item) == LARGE
            if got == 2:
                kill(await begun(mark))

    assert (await ward.fails(consume(), ChildDied)).method == "large_items"
    assert got >= 2
    await ward.whole()


@pytest.mark.full
async def test_cancelled_with_its_argument_half_written(open_ward: OpenWard) -> None:
    ward = await open_ward()
    for pid in ward.pids:
        os.kill(pid, signal.SIGSTOP)
    calls = [asyncio.create_task(ward.pool.call("length", (bytes(LARGE),))) for _ in range(2)]
    for _ in range(_TICKS):
        await asyncio.sleep(0)
    ward.others()
    for call in calls:
        call.cancel()
    assert [type(each) for each in await asyncio.gather(*calls, return_exceptions=True)] == [asyncio.CancelledError] * 2
    calls.clear()
    del call
    await ward.whole()


def _wait_for(mark: Path) -> int:
    """Without letting the loop run."""
    until = time.monotonic() + 30
    while not (mark.exists() and mark.read_text()):
        assert time.monotonic() < until, "the method has not begun"
        time.sleep(0.002)
    return int(mark.read_text())


def _wait_until_it_rests(pid: int) -> None:
    """Until the child uses no processor: it waits for somebody to read. As above."""
    process, until = psutil.Process(pid), time.monotonic() + 30
    used = -1.0
    while True:
        times = process.cpu_times()
        if times.user + times.system == used and process.status() == psutil.STATUS_SLEEPING:
            return
        used = times.user + times.system
        assert time.monotonic() < until, "the child does not come to rest"
        time.sleep(0.05)  # the clock that measures it ticks every 10 ms
