"""The one timer of a pool: wakes at the earliest deadline of any child and tells that child."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from workfleet.ports.clock import Clock

_NEVER = float("inf")


class Timed(Protocol):
    """Something that must be looked at when its time comes."""

    def deadline(self) -> float: ...
    def expire(self) -> None:
        """Its deadline has passed. Must move or drop that deadline."""
        ...


class Deadlines:
    """A service. `note` is cheap: it wakes the service only for a deadline earlier than the one it waits for."""

    def __init__(self, clock: Clock) -> None:
        self.name = "deadlines"
        self._clock = clock
        self.timed: Callable[[], Iterable[Timed]] = tuple
        self._waits_for = _NEVER
        self._earlier = asyncio.Event()

    def note(self, deadline: float) -> None:
        if deadline < self._waits_for:
            self._waits_for = deadline
            self._earlier.set()

    async def serve(self) -> None:
        while True:
            self._earlier.clear()
            now = self._clock.monotonic()
            for one in self.timed():
                if one.deadline() <= now:
                    one.expire()
            self._waits_for = min((one.deadline() for one in self.timed()), default=_NEVER)
            try:
                async with asyncio.timeout(None if self._waits_for == _NEVER else self._waits_for - now):
                    await self._earlier.wait()
            except TimeoutError:
                pass
