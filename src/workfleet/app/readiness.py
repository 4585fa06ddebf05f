"""Keeps a worker's health up to date: it asks all indicators at an interval, and says what makes the worker unready."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workfleet.health.indication import HealthReport
from workfleet.health.pools import failure
from workfleet.health.service import Health
from workfleet.model.fleet import PoolReport
from workfleet.ports.clock import Clock
from workfleet.settings.health import HealthSettings

_OTHERS = ("store", "pools")
"""The probe judges the store by the round trips that it is told of, and of pools it is told at once."""


class Readiness:
    """A Service. Liveness never depends on it."""

    name = "health"

    def __init__(
        self, health: Health, settings: HealthSettings, clock: Clock, pools: Callable[[], Sequence[PoolReport]]
    ) -> None:
        """`pools` gives the pools that were started, as they are now."""
        self._health, self._clock, self._pools = health, clock, pools
        self._interval_s = settings.interval.ms / 1000
        self._pools_count = settings.pools and "pools" in settings.critical
        self.report: HealthReport | None = None
        """What health said last; None before the first time."""

    async def serve(self) -> None:
        while True:
            self.report = await self._health.check()
            await self._clock.sleep(self._interval_s)

    @property
    def unready(self) -> tuple[str, ...]:
        """A sentence for each critical indicator that is unhealthy, and for each pool that has failed."""
        failed = [failure(pool) for pool in self._pools() if pool.state == "failed"] if self._pools_count else []
        if self.report is None:
            return (*failed, "its health is not known yet")
        ill = [said for said in self.report.ill if said.critical and said.status == "unhealthy"]
        return (*failed, *(f"{said.name}: {said.reason or said.status}" for said in ill if said.name not in _OTHERS))
