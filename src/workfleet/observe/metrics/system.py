"""Measures the container, else the machine, at an interval. Is given its reader."""

from __future__ import annotations

from workfleet.ports.clock import Clock
from workfleet.ports.metrics import Labels, Metrics, SystemReader

MEMORY_LIMIT = "workfleet_system_memory_limit_bytes"
MEMORY_USED = "workfleet_system_memory_used_bytes"
CPUS = "workfleet_system_cpu_limit_cores"
CPU = "workfleet_system_cpu_seconds_total"
THROTTLED = "workfleet_system_cpu_throttled_seconds_total"


class SystemCollector:
    """A service; one on each machine is enough. `labels` name the machine."""

    def __init__(
        self, metrics: Metrics, read: SystemReader, clock: Clock, *, labels: Labels, interval_ms: int = 10_000
    ) -> None:
        self._metrics, self._read, self._clock = metrics, read, clock
        self._labels, self._interval_ms = labels, interval_ms
        self._before: dict[str, float] = {}
        self.name = "system metrics"

    async def serve(self) -> None:
        while True:
            self.collect()
            await self._clock.sleep(self._interval_ms / 1000)

    def collect(self) -> None:
        """Measure once."""
        facts = self._read()
        self._metrics.gauge(MEMORY_LIMIT, facts.memory_limit_bytes, labels=self._labels)
        self._metrics.gauge(MEMORY_USED, facts.memory_used_bytes, labels=self._labels)
        self._metrics.gauge(CPUS, facts.cpus, labels=self._labels)
        self._grow(CPU, facts.cpu_seconds)
        if facts.throttled_seconds is not None:
            self._grow(THROTTLED, facts.throttled_seconds)

    def _grow(self, name: str, seconds: float) -> None:
        # What was used before the first look is not ours: a restart must not count it again.
        grown = seconds - self._before.get(name, seconds)
        self._before[name] = seconds
        self._metrics.counter(name, max(grown, 0.0), labels=self._labels)
