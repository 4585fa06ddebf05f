"""Who in this process waits for a change, and what changed since somebody looked. Knows no store or other process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from workfleet.ports.clock import Clock

SCHEDULES = "schedules"
"""The topic of everything about schedules."""
CANCELS = "cancels"
"""The topic of jobs that run and are to be cancelled."""

_ANYTHING = "anything"


def queue_topic(queue: str) -> str:
    """The topic of a queue."""
    return f"queue {queue}"


class Wakes:
    """Topics that changed, and the waiters for them. For one event loop.

    A change that comes after a look and before the wait that follows it is remembered, so that nobody sleeps over it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed: set[str] = set()
        self._waiters: dict[asyncio.Future[None], frozenset[str]] = {}

    def looked(self, topics: Iterable[str]) -> None:
        """Somebody is about to look: only what changes from now on is news."""
        self._changed.difference_update(topics)

    def announce(self, topics: Iterable[str]) -> None:
        """Topics have changed: wake who waits for one of them."""
        changed = frozenset(topics)
        self._changed |= changed
        self._wake(lambda wanted: not wanted.isdisjoint(changed))

    def announce_all(self) -> None:
        """Anything may have changed: wake everybody, and whoever waits next."""
        self._changed.add(_ANYTHING)
        self._wake(lambda _: True)

    def has_news(self, topics: Iterable[str]) -> bool:
        """Whether something of these has changed since somebody looked."""
        return not self._changed.isdisjoint((*topics, _ANYTHING))

    async def wait(self, topics: Iterable[str], timeout_ms: int) -> bool:
        """Until one of the topics changes (True) or the time is over by the clock (False)."""
        wanted = frozenset((*topics, _ANYTHING))
        if not wanted.isdisjoint(self._changed):
            self._changed -= wanted
            return True
        if timeout_ms <= 0:
            return False
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[woken] = wanted
        over = asyncio.ensure_future(self._clock.sleep(timeout_ms / 1000))
        try:
            await asyncio.wait({woken, over}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            del self._waiters[woken]
            over.cancel()
        self._changed -= wanted
        return woken.done()

    def _wake(self, concerns: Callable[[frozenset[str]], bool]) -> None:
        for woken, wanted in self._waiters.items():
            if not woken.done() and concerns(wanted):
                woken.set_result(None)
