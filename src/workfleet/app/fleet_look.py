"""What health wants to know of the fleet's work, read from the store seldom enough that an idle worker costs little."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from workfleet.errors import StoreUnavailable
from workfleet.ports.clock import Clock
from workfleet.ports.stores import Store
from workfleet.schedules.overdue import overdue_ms

from .queue_counts import QueueCounts

_PAGE = 1_000
_MOST_PAGES = 2
"""Of schedules in one look; the next one goes on where it ended."""
_ASK_TIME = 8
_SET_MS = 1_000
"""A wall clock that is off by more since the last look has not drifted, but was set."""


class FleetLook:
    """How long ready jobs wait in queues that are not paused, and how late schedules are, each by name in milliseconds.

    Each is read once in `interval_ms` however often it is asked for. Where the store does not answer within
    `within_ms`, what was read last still counts: that the store is ill is for others to say."""

    def __init__(
        self,
        store: Callable[[], Awaitable[Store]],
        counts: QueueCounts,
        clock: Clock,
        *,
        interval_ms: int,
        within_ms: float,
    ) -> None:
        self.queues = Kept(self._read_queues, clock, interval_ms=interval_ms, within_ms=within_ms)
        self.schedules = Kept(self._read_schedules, clock, interval_ms=interval_ms, within_ms=within_ms)
        self._store, self._counts, self._clock, self._counted_s = store, counts, clock, float("-inf")
        self._ahead_ms: float | None = None
        """How far the store's clock is ahead of this process's monotonic one."""
        self._wall_ahead_ms = 0.0
        """How far this machine's wall clock was ahead of that when the store was asked last."""
        self._looks, self._after, self._round = 0, "", 0
        self._late: dict[str, tuple[int, int]] = {}
        """How late, and the round in which that was seen."""

    async def _read_queues(self) -> dict[str, int]:
        store = await self._store()
        # Metrics ask at an interval, too: what they were told since the last look is new enough.
        counts = await self._counts.since(self._counted_s)
        self._counted_s = self._clock.monotonic()
        since = {name: each.oldest_ready_ms for name, each in counts.items() if each.oldest_ready_ms is not None}
        if not since:
            return {}
        now_ms, records = await self._now_ms(store), await store.queues.all()
        # A queue that somebody has paused waits because it should.
        works = [name for name in since if not (name in records and records[name].paused)]
        return {name: max(now_ms - since[name], 0) for name in works}

    async def _read_schedules(self) -> dict[str, int]:
        """A round through many schedules takes several looks."""
        store = await self._store()
        now_ms = await self._now_ms(store)
        for _ in range(_MOST_PAGES):
            records, self._after = await store.schedules.page(self._after, _PAGE)
            for record in records:
                late_ms = overdue_ms(record, now_ms)
                if late_ms:
                    self._late[record.name] = late_ms, self._round
                else:
                    self._late.pop(record.name, None)
            if not self._after:
                # What this round has not seen is gone.
                self._late = {name: seen for name, seen in self._late.items() if seen[1] == self._round}
                self._round += 1
                break
        return {name: late_ms for name, (late_ms, _) in self._late.items()}

    async def _now_ms(self, store: Store) -> int:
        """The store's time, asked for now and then: clocks drift, and may be set. Where this machine's was, that of a
        store in a file was set with it."""
        wall_ahead_ms = self._clock.now_ms() - self._clock.monotonic() * 1000
        was_set = abs(wall_ahead_ms - self._wall_ahead_ms) > _SET_MS
        if self._ahead_ms is None or was_set or self._looks % _ASK_TIME == 0:
            self._ahead_ms = await store.now_ms() - self._clock.monotonic() * 1000
            self._wall_ahead_ms = wall_ahead_ms
        self._looks += 1
        return round(self._clock.monotonic() * 1000 + self._ahead_ms)


class Kept:
    """An answer that is read anew when it is too old. Called by one at a time."""

    def __init__(
        self, read: Callable[[], Awaitable[Mapping[str, int]]], clock: Clock, *, interval_ms: int, within_ms: float
    ) -> None:
        self._read, self._clock = read, clock
        self._interval_s, self._within_s = interval_ms / 1000, within_ms / 1000
        self._answer: Mapping[str, int] = {}
        self._read_at = float("-inf")

    async def __call__(self) -> Mapping[str, int]:
        if self._clock.monotonic() - self._read_at >= self._interval_s:
            try:
                async with asyncio.timeout(self._within_s):
                    self._answer = await self._read()
            except (StoreUnavailable, TimeoutError):
                return self._answer
            self._read_at = self._clock.monotonic()
        return self._answer
