"""Calls that are sent ahead to a busy child: what was finished is never lost, held up or taken for another."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from tests.pools.conftest import MakePool
from tests.pools.support import begun, kill
from workfleet.errors import CallTimeout, ChildDied
from workfleet.pools.options import ChildSpec
from workfleet.pools.pool import ProcessPool

QUICK = ChildSpec("tests.pools.ahead_workers:Quick")


async def proven(pool: ProcessPool, count: int) -> None:
    """Until so many calls may be with a child at once."""
    while pool._desk._pace.line("act") < count:
        assert await asyncio.gather(*(pool.call("act", (n,)) for n in range(40))) == list(range(40))


async def ahead(pool: ProcessPool, *asked: tuple[Any, ...], at_once: int | None = None) -> list[Any]:
    """These calls, all of them or so many with the child at once: it is held while they are sent."""
    await proven(pool, at_once or len(asked))
    pid = pool.stats().pids[0]
    os.kill(pid, signal.SIGSTOP)
    calls = [asyncio.ensure_future(pool.call("act", each)) for each in asked]
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # the frames leave at the end of the tick
    os.kill(pid, signal.SIGCONT)
    return await asyncio.gather(*calls, return_exceptions=True)


async def test_a_call_that_kills_its_child_takes_no_finished_one_along(make_pool: MakePool) -> None:
    pool = make_pool(QUICK).pool
    found = await ahead(pool, *((n, "die" if n == 25 else "") for n in range(50)))
    assert [type(each) for each in found if not isinstance(each, int)] == [ChildDied]
    assert [each for each in found if isinstance(each, int)] == [n for n in range(50) if n != 25]
    assert isinstance(found[25], ChildDied)
    stats = pool.stats()
    assert (stats.restarts, stats.failures) == (1, 1)


async def test_a_finished_call_is_not_held_up_by_the_next(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool(QUICK).pool
    await proven(pool, 11)
    first = [asyncio.ensure_future(pool.call("act", (n,))) for n in range(10)]
    slow = asyncio.ensure_future(pool.call("act", (0, "hang", str(tmp_path / "mark"))))
    assert await asyncio.gather(*first) == list(range(10))
    kill(await begun(tmp_path / "mark"))
    assert isinstance((await asyncio.gather(slow, return_exceptions=True))[0], ChildDied)


async def test_a_timeout_is_of_the_call_that_hangs(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool(QUICK, call_timeout_ms=1_000).pool
    found = await ahead(pool, *((n, "hang" if n == 5 else "", str(tmp_path / "mark")) for n in range(10)))
    assert isinstance(found[5], CallTimeout)
    assert [each for n, each in enumerate(found) if n != 5] == [n for n in range(10) if n != 5]
    assert pool.stats().failures == 1


async def test_every_kind_of_answer_comes_to_its_call(make_pool: MakePool) -> None:
    """Some go through the pipe, some through the socket, some through memory; the pipe is too small for all."""
    pool = make_pool(QUICK).pool
    kinds = ["", "raise", "fill", "fill", "large", "fill", ""]
    asked = [(n, kinds[n % len(kinds)]) for n in range(60)]
    for _ in range(5):
        found = await ahead(pool, *asked, at_once=10)
        for (number, kind), each in zip(asked, found, strict=True):
            match kind:
                case "raise":
                    assert isinstance(each, LookupError)
                    assert each.args == (number,)
                case "fill" | "large":
                    assert each == bytes([number]) * (2_000 if kind == "fill" else 1_000_000)
                case _:
                    assert each == number
    filled = await ahead(pool, *((n, "fill") for n in range(60)))
    assert filled == [bytes([n]) * 2_000 for n in range(60)]
    assert pool.stats().restarts == 0
