"""The indicator of the application's own Redis clients. It is given what pings each, and knows no Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from workfleet.ports.clock import Clock

from .indication import Indication, judged, worst

Ping = Callable[[], Awaitable[object]]


class RedisIndicator:
    """How long each client waits for a ping, all side by side; the worst counts, and is named.

    `pings` gives them by the clients' names. `within_ms` bounds each: a client that tries again and again must not use
    up the time in which the others are told."""

    name = "redis"

    def __init__(
        self,
        pings: Callable[[], Awaitable[Mapping[str, Ping]]],
        clock: Clock,
        *,
        within_ms: float,
        degraded_from_ms: float = 100,
        unhealthy_from_ms: float = 1_000,
        critical: bool = True,
    ) -> None:
        self._pings, self._clock, self._within_s = pings, clock, within_ms / 1000
        self._degraded_from_ms, self._unhealthy_from_ms = degraded_from_ms, unhealthy_from_ms
        self.critical = critical

    async def check(self) -> Indication:
        pings = await self._pings()
        found = await asyncio.gather(*(self._ping(name, ping) for name, ping in pings.items()))
        facts = {name: value for said in found for name, value in said.facts.items()}
        told = worst(found)
        return Indication(told.status, facts, told.reason)

    async def _ping(self, name: str, ping: Ping) -> Indication:
        started = self._clock.monotonic()
        try:
            async with asyncio.timeout(self._within_s):
                await ping()
        except TimeoutError:
            return Indication("unhealthy", {f"{name}_ms": None}, f"client {name} has no answer in {self._within_s:g} s")
        except Exception as error:  # noqa: BLE001 - whatever a client raises is how it is; the others are told, too
            return Indication("unhealthy", {f"{name}_ms": None}, f"client {name}: {type(error).__name__}: {error}")
        took_ms = (self._clock.monotonic() - started) * 1000
        status = judged(took_ms, self._degraded_from_ms, self._unhealthy_from_ms)
        reason = "" if status == "healthy" else f"client {name} waits {took_ms:.0f} ms for a ping"
        return Indication(status, {f"{name}_ms": round(took_ms, 1)}, reason)
