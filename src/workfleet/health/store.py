"""The store indicator: a real round trip, given by the app. Must not know which store it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from workfleet.ports.clock import Clock

from .indication import Indication, judged


@dataclass(frozen=True)
class Trip:
    """A round trip that somebody else has made: when it ended, by the monotonic clock, and how long it took.
    `error` says why it failed."""

    ended_s: float
    took_ms: float
    error: str | None = None


class StoreIndicator:
    """How long the round trip takes. What it raises makes the process unready.

    A worker makes one again and again anyway: where `last` gives one that is at most `recent_s` old, it counts, and
    the store is not asked once more."""

    name = "store"

    def __init__(
        self,
        round_trip: Callable[[], Awaitable[None]],
        clock: Clock,
        *,
        last: Callable[[], Trip | None] = lambda: None,
        recent_s: float = 15.0,
        degraded_from_ms: float = 250,
        unhealthy_from_ms: float = 1_500,
        critical: bool = True,
    ) -> None:
        self._round_trip, self._clock = round_trip, clock
        self._last, self._recent_s = last, recent_s
        self._degraded_from_ms, self._unhealthy_from_ms = degraded_from_ms, unhealthy_from_ms
        self.critical = critical

    async def check(self) -> Indication:
        last = self._last()
        if last is None or self._clock.monotonic() - last.ended_s > self._recent_s:
            last = await self._make()
        if last.error is not None:
            return Indication("unhealthy", {"round_trip_ms": None}, last.error)
        status = judged(last.took_ms, self._degraded_from_ms, self._unhealthy_from_ms)
        reason = "" if status == "healthy" else f"a claim took {last.took_ms:.0f} ms"
        return Indication(status, {"round_trip_ms": round(last.took_ms, 1)}, reason)

    async def _make(self) -> Trip:
        started = self._clock.monotonic()
        await self._round_trip()
        ended = self._clock.monotonic()
        return Trip(ended, (ended - started) * 1000)
