"""Measures the own process at an interval: memory, CPU time, threads, open files. Is given their reader."""

from __future__ import annotations

from workfleet.ports.clock import Clock
from workfleet.ports.metrics import Labels, Metrics, ProcessReader

MEMORY = "workfleet_process_resident_memory_bytes"
CPU = "workfleet_process_cpu_seconds_total"
THREADS = "workfleet_process_threads"
OPEN_FDS = "workfleet_process_open_fds"


class ProcessCollector:
    """A service. `labels` tell the processes of an app apart, such as `{"worker": "1"}`; prefer few, lasting values."""

    def __init__(
        self, metrics: Metrics, read: ProcessReader, clock: Clock, *, labels: Labels, interval_ms: int = 10_000
    ) -> None:
        self._metrics, self._read, self._clock = metrics, read, clock
        self._labels, self._interval_ms = labels, interval_ms
        self._cpu_seconds = 0.0
        self.name = "process metrics"

    async def serve(self) -> None:
        while True:
            self.collect()
            await self._clock.sleep(self._interval_ms / 1000)

    def collect(self) -> None:
        """Measure once."""
        facts = self._read()
        self._metrics.gauge(MEMORY, facts.rss_bytes, labels=self._labels)
        self._metrics.gauge(THREADS, facts.threads, labels=self._labels)
        if facts.open_fds is not None:
            self._metrics.gauge(OPEN_FDS, facts.open_fds, labels=self._labels)
        self._metrics.counter(CPU, max(facts.cpu_seconds - self._cpu_seconds, 0.0), labels=self._labels)
        self._cpu_seconds = facts.cpu_seconds
