"""Memory that grows faster than one can look, and children that are replaced all the time."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.pools.kills.ward import OpenWard
from tests.pools.support import wait_until
from workfleet.errors import MemoryLimitExceeded
from workfleet.events import ChildDied, ChildReplaced, ReplacementFailed

LIMIT = 200_000_000


async def test_memory_that_grows_to_three_times_the_limit_within_a_second(open_ward: OpenWard) -> None:
    ward = await open_ward(memory_bytes=LIMIT)
    before = ward.pids
    error = await ward.fails(ward.pool.call("grow", (600, 1.0)), MemoryLimitExceeded)
    assert (error.pool, error.method, error.limit) == ("test", "grow", LIMIT)
    assert LIMIT < error.used < 900_000_000
    await ward.whole()
    (died,) = ward.made.told(ChildDied)
    assert {died.pid} == before - ward.pids
    assert died.method == "grow"
    assert (ward.pool.stats().failures, ward.pool.stats().restarts) == (1, 0)  # it was no crash


@pytest.mark.full
async def test_both_grow_again_and_again(open_ward: OpenWard) -> None:
    ward = await open_ward(memory_bytes=LIMIT)
    for _ in range(4):
        calls = [ward.pool.call("grow", (600, 1.0)) for _ in range(4)]
        for error in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(error, MemoryLimitExceeded), error
        ward.others()
        await ward.whole()
    assert ward.pool.stats().failures == 16


@pytest.mark.parametrize("calls", [40, pytest.param(600, marks=pytest.mark.full)])
async def test_recycling_all_the_time_loses_no_call(open_ward: OpenWard, calls: int) -> None:
    """A new child after every third call: 600 calls are two hours with one every twelve seconds."""
    ward = await open_ward(max_calls=3)
    served: Counter[int] = Counter()
    for _ in range(calls // 20):
        ward.others(10)
        served.update(await asyncio.gather(*(ward.pool.call("pid") for _ in range(10))))
    assert served.total() == calls // 2
    assert ward.made.told(ReplacementFailed) == []
    assert max(served.values()) <= 3, "a child served more calls than it may"
    await ward.whole()
    # Each child had three of the calls at most.
    assert len(ward.made.told(ChildReplaced)) >= calls // 3 - 2
    assert ward.made.told(ChildDied) == []
    assert (ward.pool.stats().failures, ward.pool.stats().restarts) == (0, 0)


@pytest.mark.full
async def test_recycling_by_hand_under_load_loses_no_call(open_ward: OpenWard) -> None:
    ward = await open_ward()
    for number in range(30):
        before = ward.pids
        ward.others(100)
        ward.pool.recycle()
        ward.others(100)
        await wait_until(lambda before=before: not before & ward.pids)  # type: ignore[misc] - mypy sees no default
        if number % 5 == 0:
            await ward.whole()
    await ward.whole()
    assert ward.pool.stats().failures == 0


@pytest.mark.full
async def test_age_recycles_idle_children(open_ward: OpenWard) -> None:
    ward = await open_ward(max_age_ms=1_500)
    before = ward.pids
    await wait_until(lambda: not before & ward.pids, 30)
    ward.others()
    await ward.whole()
    assert ward.made.told(ChildDied) == []
