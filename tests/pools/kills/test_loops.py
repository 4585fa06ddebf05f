"""What nothing reaches but a kill: loops in C that no signal interrupts, and code that swallows every exception."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.pools.kills.victims import C_LOOPS
from tests.pools.kills.ward import OpenWard
from tests.pools.support import begun, runs
from workfleet.errors import CallTimeout
from workfleet.events import ChildDied

FIRST, *OTHERS = C_LOOPS
SWALLOWING = [
    "swallow_spinning",
    *(pytest.param(each, marks=pytest.mark.full) for each in ("swallow", "swallow_async")),
]


@pytest.mark.parametrize("which", [FIRST, *(pytest.param(each, marks=pytest.mark.full) for each in OTHERS)])
async def test_a_loop_in_c_ends_at_the_calls_timeout(open_ward: OpenWard, tmp_path: Path, which: str) -> None:
    ward = await open_ward()
    mark = tmp_path / "mark"
    started = time.monotonic()
    error = await ward.fails(ward.pool.call("c_loop", (which, str(mark)), timeout_ms=300), CallTimeout)
    assert (error.method, error.timeout_ms) == ("c_loop", 300)
    assert 0.3 <= time.monotonic() - started < 3
    (died,) = ward.made.told(ChildDied)
    assert (died.method, died.how) == ("c_loop", "signal SIGKILL")
    assert not runs(died.pid)
    await ward.whole()
    assert (ward.pool.stats().failures, ward.pool.stats().restarts) == (1, 0)


@pytest.mark.full
@pytest.mark.parametrize("which", list(C_LOOPS))
async def test_a_loop_in_c_ends_when_nobody_waits_any_more(open_ward: OpenWard, tmp_path: Path, which: str) -> None:
    ward = await open_ward()
    mark = tmp_path / "mark"
    call = asyncio.create_task(ward.pool.call("c_loop", (which, str(mark))))
    pid = await begun(mark)
    ward.others()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not runs(pid)
    await ward.whole()


@pytest.mark.parametrize("method", SWALLOWING)
async def test_code_that_swallows_everything_ends_at_the_calls_timeout(
    open_ward: OpenWard, tmp_path: Path, method: str
) -> None:
    ward = await open_ward(cancel_grace_ms=100)
    mark = tmp_path / "mark"
    error = await ward.fails(ward.pool.call(method, (str(mark),), timeout_ms=300), CallTimeout)
    assert (error.method, error.timeout_ms) == (method, 300)
    (died,) = ward.made.told(ChildDied)
    assert (died.method, died.how) == (method, "signal SIGKILL")
    assert not runs(died.pid)
    await ward.whole()


@pytest.mark.full
@pytest.mark.parametrize("method", ["swallow", "swallow_spinning", "swallow_async"])
async def test_code_that_swallows_everything_ends_when_nobody_waits_any_more(
    open_ward: OpenWard, tmp_path: Path, method: str
) -> None:
    ward = await open_ward(cancel_grace_ms=100)
    mark = tmp_path / "mark"
    call = asyncio.create_task(ward.pool.call(method, (str(mark),)))
    pid = await begun(mark)
    ward.others()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not runs(pid)
    await ward.whole()


@pytest.mark.full
@pytest.mark.parametrize("method", ["swallow", "swallow_spinning", "swallow_async"])
async def test_code_that_swallows_everything_does_not_hold_up_the_pools_end(
    open_ward: OpenWard, tmp_path: Path, method: str
) -> None:
    ward = await open_ward()
    mark = tmp_path / "mark"
    call = asyncio.create_task(ward.pool.call(method, (str(mark),)))
    pid = await begun(mark)
    started = time.monotonic()
    assert await ward.pool.stop(500) == 1
    assert time.monotonic() - started < 5
    assert not runs(pid)
    (error,) = await asyncio.gather(call, return_exceptions=True)
    assert getattr(error, "code", None) == "child_died"


@pytest.mark.full
async def test_a_stream_that_cannot_be_closed(open_ward: OpenWard, tmp_path: Path) -> None:
    ward = await open_ward(cancel_grace_ms=100)
    mark = tmp_path / "mark"
    stream = ward.pool.stream("finally_blocks", (str(mark),))
    assert await anext(stream) == 1
    ward.others()
    await stream.aclose()  # type: ignore[attr-defined] - it is an asynchronous generator
    assert not runs(await begun(mark))
    await ward.whole()
