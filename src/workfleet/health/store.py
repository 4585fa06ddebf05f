"""The store indicator: a real round trip, given by the app. Must not know which store it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from workfleet.ports.clock import Clock

from .indication import Indication, judged


class StoreIndicator:
    """How long the round trip takes. What it raises makes the process unready."""

    name = "store"

    def __init__(
        self,
        round_trip: Callable[[], Awaitable[None]],
        clock: Clock,
        *,
        degraded_from_ms: float = 250,
        unhealthy_from_ms: float = 1_500,
        critical: bool = True,
    ) -> None:
        self._round_trip, self._clock = round_trip, clock
        self._degraded_from_ms, self._unhealthy_from_ms = degraded_from_ms, unhealthy_from_ms
        self.critical = critical

    async def check(self) -> Indication:
        started = self._clock.monotonic()
        await self._round_trip()
        took_ms = (self._clock.monotonic() - started) * 1000
        status = judged(took_ms, self._degraded_from_ms, self._unhealthy_from_ms)
        reason = "" if status == "healthy" else f"a claim took {took_ms:.0f} ms"
        return Indication(status, {"round_trip_ms": round(took_ms, 1)}, reason)
