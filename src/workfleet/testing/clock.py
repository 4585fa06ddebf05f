"""A clock that stands still until a test moves it. Whoever sleeps on it wakes when it has been moved far enough."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime


class TestClock:
    """Wall and monotonic time move together, only by `move_to`."""

    __test__ = False  # not a test class, whatever pytest thinks of its name

    def __init__(self, now_ms: int) -> None:
        self._started_ms = self._now_ms = now_ms
        self._sleepers: list[tuple[int, asyncio.Future[None]]] = []

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return (self._now_ms - self._started_ms) / 1000

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)  # noqa: TID251 - this is a clock
            return
        woken = asyncio.get_running_loop().create_future()
        sleeper = (self._now_ms + round(seconds * 1000), woken)
        self._sleepers.append(sleeper)
        try:
            await woken
        finally:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)

    def move_to(self, now_ms: int) -> None:
        """Set the time, never back. Wakes whose time has come."""
        self._now_ms = max(now_ms, self._now_ms)
        for due_ms, woken in list(self._sleepers):
            if due_ms <= self._now_ms and not woken.done():
                woken.set_result(None)


def instant_ms(text: str) -> int:
    """ISO 8601 to milliseconds; without an offset it is UTC. "2027-03-27T12:00Z"."""
    at = datetime.fromisoformat(text)
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
