"""How many jobs queues hold, as the store said last: metrics and health want it, and one question is enough."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from workfleet.model.jobs import JobCounts
from workfleet.ports.clock import Clock
from workfleet.ports.stores import Store

Counts = dict[str, JobCounts]


class QueueCounts:
    """Of the application's own jobs. Both raise `StoreUnavailable`."""

    def __init__(self, store: Callable[[], Awaitable[Store]], clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._read: tuple[float, Counts] | None = None

    async def read(self) -> Counts:
        """As they are now."""
        counts = await (await self._store()).jobs.counts(housekeeping=False)
        self._read = self._clock.monotonic(), counts
        return counts

    async def since(self, instant_s: float) -> Counts:
        """As somebody has read them after that instant of the monotonic clock, else as they are now."""
        if self._read is not None and self._read[0] > instant_s:
            return self._read[1]
        return await self.read()
