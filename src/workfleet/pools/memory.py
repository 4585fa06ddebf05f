"""Holds a pool's children to their memory limits. A service; sleeps while nobody calls the pool."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import psutil

from workfleet.errors import MemoryLimitExceeded
from workfleet.pools.desk import Desk
from workfleet.pools.member import Member
from workfleet.pools.options import PoolOptions
from workfleet.ports.clock import Clock

_EVERY: Final = 0.25


def resident_bytes(pid: int) -> int | None:
    """What a process holds in memory; None when it is gone."""
    try:
        resident: int = psutil.Process(pid).memory_info().rss
    except psutil.Error:
        return None
    return resident


class MemoryWatch:
    """Above the hard limit a child is killed and its call fails; above the soft one it is replaced after its call."""

    def __init__(
        self,
        options: PoolOptions,
        desk: Desk,
        members: Callable[[], Iterable[Member]],
        clock: Clock,
        measure: Callable[[int], int | None] = resident_bytes,
    ) -> None:
        self.name = f"memory of pool {options.name}"
        self._options = options
        self._desk = desk
        self._members = members
        self._clock = clock
        self._measure = measure

    async def serve(self) -> None:
        while True:
            await self._desk.worked.wait()
            self._desk.worked.clear()
            await self._clock.sleep(_EVERY)
            for member in self._members():
                self._look(member)
                if len(member.line):
                    self._desk.worked.set()

    def _look(self, member: Member) -> None:
        used = self._measure(member.child.pid) if member.state in ("ready", "draining") else None
        if used is None:
            return
        hard, soft, head = self._options.memory_bytes, self._options.soft_limit_bytes, member.line.head
        if hard is not None and used > hard and head is not None:
            error = MemoryLimitExceeded(self._options.name, head.method, used, hard)
            member.kill(f"{head.method} used {format_mb(used)} of {format_mb(hard)}", error)
        elif soft is not None and used > soft:
            member.retire(f"it holds {format_mb(used)}, above the soft limit of {format_mb(soft)}")


def format_mb(size: int) -> str:
    return f"{size / 1e6:.0f} MB"
