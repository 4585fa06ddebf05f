"""A clock that moves only when a test says so, and lets the test wait until somebody sleeps on it."""

from __future__ import annotations

import asyncio


class ManualClock:
    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self._now_ms, self._monotonic = now_ms, 100.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []
        self._slept = asyncio.Event()

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return self._monotonic

    async def sleep(self, seconds: float) -> None:
        sleeper = (self._monotonic + seconds, asyncio.get_running_loop().create_future())
        self._sleepers.append(sleeper)
        self._slept.set()
        try:
            await sleeper[1]
        finally:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)

    async def somebody_sleeps(self) -> float:
        """Wait until somebody sleeps; returns for how long still."""
        async with asyncio.timeout(5):
            while not self._sleepers:
                self._slept.clear()
                await self._slept.wait()
        return self._sleepers[0][0] - self._monotonic

    def pass_time(self, seconds: float) -> None:
        """Move on, and wake who is due."""
        self._monotonic += seconds
        self._now_ms += round(seconds * 1000)
        for sleeper in self._sleepers[:]:
            due, future = sleeper
            if due <= self._monotonic + 1e-9:
                self._sleepers.remove(sleeper)
                if not future.done():
                    future.set_result(None)
