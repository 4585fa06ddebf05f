"""The one timer of a pool: wakes at the earliest deadline of any child and tells that child.

A deadline is only a child's fault when this process could have heard from it in time. Where the loop was blocked past a
deadline, or the process got no processor, what the child said may still be unread, or it waits for something that has
not been sent yet: then what is due is put off by as long as this process was late, and the loop reads meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from workfleet.ports.clock import Clock

_NEVER = float("inf")
_LATE: Final = 0.1
"""Later than so many seconds was not the timer's own coarseness."""
_EXCUSES: Final = 5
"""How often in a row what is due is put off: a process that is always late must still end what is stuck."""
_LOOKS: Final = 2
"""How many more rounds of the loop may read from the children before one is judged."""


class Timed(Protocol):
    """Something that must be looked at when its time comes."""

    def deadline(self) -> float: ...
    def excuse(self, seconds: float) -> None:
        """Its deadline has passed unseen. Must be that much later from now."""
        ...

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
        self._excused = 0

    def note(self, deadline: float) -> None:
        if deadline < self._waits_for:
            self._waits_for = deadline
            self._earlier.set()

    async def serve(self) -> None:
        while True:
            self._earlier.clear()
            if self._due():
                late = self._clock.monotonic() - min(one.deadline() for one in self._due())
                for _ in range(_LOOKS):
                    await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop and no time: what was said is read
                self._judge(late)
            now = self._clock.monotonic()
            self._waits_for = min((one.deadline() for one in self.timed()), default=_NEVER)
            try:
                async with asyncio.timeout(None if self._waits_for == _NEVER else self._waits_for - now):
                    await self._earlier.wait()
            except TimeoutError:
                pass

    def _due(self) -> list[Timed]:
        now = self._clock.monotonic()
        return [one for one in self.timed() if one.deadline() <= now]

    def _judge(self, late: float) -> None:
        if late > _LATE and self._excused < _EXCUSES:
            self._excused += 1
            for one in self._due():
                one.excuse(late)
        else:
            self._excused = 0
            for one in self._due():
                one.expire()
