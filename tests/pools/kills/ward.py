"""A pool under attack: calls beside the attacked one, and the look afterwards whether everything is as before."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Any, TypeVar

import pytest

from tests.pools.kills import inventory
from tests.pools.kills.inventory import Inventory
from tests.pools.support import Made, wait_until
from workfleet.events import PoolFailed
from workfleet.pools.pool import ProcessPool

_SETTLED_WITHIN = 30.0
E = TypeVar("E", bound=Exception)


class Ward:
    """`made` is a pool at full size; what it holds then was counted."""

    def __init__(self, made: Made) -> None:
        self.made = made
        self.pool: ProcessPool = made.pool
        self.foreign = inventory.descendants() - self.pids
        """What other tests have started in this process, such as a server for a whole session."""
        self._before: Inventory | None = None
        self._others: list[tuple[int, asyncio.Task[Any]]] = []

    async def open(self) -> None:
        """Until the pool is whole; every child has had a call, so that nothing is made for the first time later."""
        await self.pool.wait_ready()
        await self._serves()
        await self._rests()
        self._before = inventory.taken(self.foreign)

    @property
    def pids(self) -> set[int]:
        return set(self.pool.stats().pids)

    def others(self, count: int = 20) -> None:
        """So many calls that nobody attacks, now: none of them may fail, wherever they wait or were sent ahead to."""
        first = len(self._others)
        for number in range(first, first + count):
            self._others.append((number, asyncio.create_task(self.pool.call("echo", (number,)))))

    def taken(self) -> list[tuple[int, asyncio.Task[Any]]]:
        """The calls of `others`, which are the test's from now on."""
        others, self._others = self._others, []
        return others

    async def fails(self, call: Awaitable[Any], error: type[E]) -> E:
        """The attacked call's error, with other calls behind it."""
        attacked = asyncio.ensure_future(call)
        await asyncio.sleep(0)
        self.others()
        with pytest.raises(error) as caught:
            await attacked
        return caught.value

    async def whole(self) -> None:
        """No other call failed, and the pool is as before: full, serving, and the parent holds no more than it did."""
        others = self.taken()
        assert await asyncio.gather(*(task for _, task in others)) == [number for number, _ in others]
        await self.pool.wait_ready()
        await self._serves()
        await self._rests()
        assert self.made.told(PoolFailed) == []
        await settled(self._before, self.foreign)

    async def _serves(self) -> None:
        """Each child answers; where every call may be a child's last, so many calls are."""
        size = self.pool.options.size
        if self.pool.options.max_calls is not None:
            assert await asyncio.gather(*(self.pool.call("echo", (n,)) for n in range(size))) == list(range(size))
            return
        seen: set[int] = set()
        until = time.monotonic() + _SETTLED_WITHIN
        while len(seen) < size or seen != self.pids:
            assert time.monotonic() < until, f"{seen} answered, {self.pool.stats()}"
            seen |= set(await asyncio.gather(*(self.pool.call("pid") for _ in range(size))))
            seen &= self.pids

    async def _rests(self) -> None:
        """The pool is at full size and rests, and no other process descends from this one."""

        def rests() -> bool:
            pids, stats = inventory.descendants() - self.foreign, self.pool.stats()
            whole = (stats.state, stats.size, stats.ready, stats.busy, stats.queued) == ("running", size, size, 0, 0)
            return whole and len(pids) == size and pids == set(stats.pids)

        size = self.pool.options.size
        try:
            await wait_until(rests, _SETTLED_WITHIN)
        except AssertionError:
            left = inventory.descendants() - self.foreign
            raise AssertionError(f"{left} descend from here, {self.pool.stats()}") from None


async def settled(before: Inventory | None, foreign: Collection[int]) -> None:
    """Until this process holds what it held before; fails with the difference."""
    assert before is not None
    until = time.monotonic() + _SETTLED_WITHIN
    while (now := inventory.taken(foreign)) != before and time.monotonic() < until:
        await asyncio.sleep(0.02)
    assert now == before, f"{now} instead of {before}"


OpenWard = Callable[..., Awaitable[Ward]]
