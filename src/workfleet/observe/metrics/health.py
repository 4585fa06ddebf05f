"""Tells how the health of this process is, at an interval: what was found last. Asks no indicator itself; is given its
reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from workfleet.ports.clock import Clock
from workfleet.ports.metrics import Labels

from .model import LabelSet, label_set
from .registry import MetricsRegistry

STATUS = "workfleet_health_status"
STATUSES = ("healthy", "degraded", "unhealthy")

HealthReader: TypeAlias = Callable[[], Mapping[str, str]]
"""The status of each indicator by its name; empty: nobody has looked yet."""


class HealthCollector:
    """A service. `labels` tell this worker from the others. An indicator that is taken out has no series any more."""

    def __init__(
        self, registry: MetricsRegistry, read: HealthReader, clock: Clock, *, labels: Labels, interval_ms: int = 10_000
    ) -> None:
        self._registry, self._read, self._clock = registry, read, clock
        self._labels, self._interval_ms = labels, interval_ms
        self._there: set[LabelSet] = set()
        self.name = "health metrics"

    async def serve(self) -> None:
        while True:
            self.collect()
            await self._clock.sleep(self._interval_ms / 1000)

    def collect(self) -> None:
        """Tell it once."""
        values = {
            label_set({**self._labels, "indicator": indicator, "status": status}): int(status == said)
            for indicator, said in self._read().items()
            for status in STATUSES
        }
        for labels in self._there - set(values):
            self._registry.forget(STATUS, labels)
        for labels, value in values.items():
            self._registry.put(STATUS, labels, value)
        self._there = set(values)
