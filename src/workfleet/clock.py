"""The only place that reads time or sleeps. Everything else is given a `Clock`."""

from __future__ import annotations

import asyncio
import time

from .ports.clock import Clock


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0))


class SkewedClock:
    """A clock whose wall time is off by `skew_ms`: for tests of fleets whose clocks disagree."""

    def __init__(self, clock: Clock, skew_ms: int) -> None:
        self._clock, self._skew_ms = clock, skew_ms

    def now_ms(self) -> int:
        return self._clock.now_ms() + self._skew_ms

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
