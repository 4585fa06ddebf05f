"""A clock that stands still until a test moves it. Whoever sleeps on it wakes when it has been moved far enough.

Owns the only places of the test tools that wait in real time. Must not know what is being tested.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from workfleet.errors import UsageError

_SPINS = 20


@dataclass(frozen=True, eq=False)
class Sleeper:
    """A task that sleeps on the clock, and until when."""

    due_ms: int
    task: asyncio.Task[Any] | None
    woken: asyncio.Future[None]


class TestClock:
    """Wall and monotonic time move together, only by `move_to`."""

    __test__ = False  # not a test class, whatever pytest thinks of its name

    def __init__(self, now_ms: int) -> None:
        self._started_ms = self._now_ms = now_ms
        self._sleepers: list[Sleeper] = []

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return (self._now_ms - self._started_ms) / 1000

    async def sleep(self, seconds: float) -> None:
        """Until the clock has been moved on by this much: at least a millisecond, unless it is nothing at all."""
        if seconds <= 0:
            await real_pause(0)
            return
        # Rounded first: 0.07 s is 70.00000000000001 ms.
        due_ms = self._now_ms + math.ceil(round(seconds * 1000, 6))
        woken = asyncio.get_running_loop().create_future()
        sleeper = Sleeper(due_ms, asyncio.current_task(), woken)
        self._sleepers.append(sleeper)
        try:
            await woken
        finally:
            self._sleepers.remove(sleeper)

    def move_to(self, now_ms: int) -> None:
        """Set the time, never back. Wakes whose time has come."""
        self._now_ms = max(now_ms, self._now_ms)
        for sleeper in self.sleepers:
            if sleeper.due_ms <= self._now_ms:
                sleeper.woken.set_result(None)

    @property
    def sleepers(self) -> Collection[Sleeper]:
        """Who sleeps now, without those that were woken and have not run yet."""
        return [sleeper for sleeper in self._sleepers if not sleeper.woken.done()]


class OwnTaskClock:
    """The clock that a test's own calls wait on. It cannot move while the task that moves it waits: that is an error,
    not a hang. Other tasks may sleep on it."""

    def __init__(self, clock: TestClock) -> None:
        self._clock = clock
        self.owner: asyncio.Task[Any] | None = None
        """The task that moves the clock."""

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        if seconds > 0 and self.owner is asyncio.current_task():
            raise UsageError(
                "this waits for something that has not happened, and only the test moves the fleet's clock: "
                "first `await fleet.run_until_idle()` or `await fleet.travel(…)`"
            )
        await self._clock.sleep(seconds)


class Patience:
    """How long, in real time, a test waits without anything happening. Raises TimeoutError from `pause` then."""

    def __init__(self, limit_ms: int) -> None:
        self._limit_s = limit_ms / 1000
        self._loop = asyncio.get_running_loop()
        self.renew()

    def renew(self) -> None:
        """Something happened."""
        self._until, self._spins = self._loop.time() + self._limit_s, 0

    async def pause(self) -> None:
        """Let the others run: a turn of the loop at first, then a millisecond, because threads need time too."""
        self._spins += 1
        if self._loop.time() > self._until:
            raise TimeoutError
        await real_pause(0 if self._spins < _SPINS else 0.001)


async def real_pause(seconds: float) -> None:
    """Wait in real time."""
    await asyncio.sleep(seconds)  # noqa: TID251 - the clock of the tests is a clock


def instant_ms(text: str) -> int:
    """ISO 8601 to milliseconds; without an offset it is UTC. "2027-03-27T12:00Z"."""
    at = datetime.fromisoformat(text)
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
