"""The metrics of pools: what they counted of their calls, and what their children are and use.

Calls are counted by the pools themselves and read here in bulk, so that a call costs as little as can be.
"""

from __future__ import annotations

import socket
import threading

from workfleet.observe.metrics.model import LabelSet
from workfleet.observe.metrics.registry import MetricsRegistry
from workfleet.pools.registry import Pools
from workfleet.pools.stats import PoolStats
from workfleet.pools.tally import Spread, Tally
from workfleet.ports.clock import Clock
from workfleet.ports.metrics import Labels
from workfleet.settings.sections import MetricsSettings

from .policies import milliseconds

CALLS = "workfleet_pool_calls_total"
DURATION = "workfleet_pool_call_duration_seconds"
WAIT = "workfleet_pool_call_wait_seconds"
RESTARTS = "workfleet_pool_restarts_total"
DEATHS = "workfleet_pool_child_deaths_total"
RECYCLED = "workfleet_pool_children_recycled_total"
SIZE = "workfleet_pool_size"
CHILDREN = "workfleet_pool_children"
QUEUED = "workfleet_pool_queued_calls"
MEMORY = "workfleet_pool_child_resident_memory_bytes"
CPU = "workfleet_pool_child_cpu_ratio"

BUCKETS = tuple(2**bits / 1_000_000 for bits in range(6, 32))
"""From 64 µs to 36 min, by powers of two, as pools count them."""
_PLACES = 64
"""Children that have series of their own; further ones of a pool have none."""


class PoolMetrics:
    """A service that measures the children at an interval. `labels` tell this worker from the others."""

    name = "pool metrics"

    def __init__(
        self, registry: MetricsRegistry, pools: Pools, clock: Clock, *, labels: Labels, interval_ms: int
    ) -> None:
        self._registry, self._pools, self._clock = registry, pools, clock
        self._labels, self._interval_ms = dict(labels), interval_ms
        self._thread = threading.get_ident()
        self._read: dict[tuple[str, LabelSet, int], int] = {}
        self._measured: set[tuple[str, str]] = set()
        for name in (DURATION, WAIT):
            registry.define(name, "histogram", buckets=BUCKETS)
        registry.before_reading(self.count)

    async def serve(self) -> None:
        while True:
            self.measure()
            await self._clock.sleep(self._interval_ms / 1000)

    def measure(self) -> None:
        """What the pools are now."""
        for stats in self._counted():
            self._put(SIZE, stats.size, pool=stats.name)
            self._put(QUEUED, stats.queued, pool=stats.name)
            for state in ("ready", "busy"):
                self._put(CHILDREN, getattr(stats, state), pool=stats.name, state=state)
            self._measure_children(stats)

    def _measure_children(self, stats: PoolStats) -> None:
        """By place, which lasts, and not by process. A place that is empty has nothing."""
        seen = {str(child.slot): child for child in stats.children[:_PLACES] if child.slot is not None}
        gone = {place for pool, place in self._measured if pool == stats.name} - seen.keys()
        for place in gone:
            for name in (MEMORY, CPU):
                labels = {**self._labels, "pool": stats.name, "place": place}
                self._registry.forget(name, tuple(sorted(labels.items())))
            self._measured.discard((stats.name, place))
        for place, child in seen.items():
            if child.memory_bytes is not None:
                self._measured.add((stats.name, place))
                self._put(MEMORY, child.memory_bytes, pool=stats.name, place=place)
                self._put(CPU, (child.cpu_percent or 0) / 100, pool=stats.name, place=place)

    def _put(self, name: str, value: float, **labels: str) -> None:
        self._registry.gauge(name, value, labels={**self._labels, **labels})

    def count(self) -> None:
        """What has happened since the last time. Another thread than the pools' gets what was counted before."""
        if threading.get_ident() != self._thread:
            return
        for stats in self._counted():
            pool = ("pool", stats.name)
            self._grow(RESTARTS, (pool,), stats.restarts)
            self._grow(RECYCLED, (pool,), stats.recycled)
            tally = self._pools.get(stats.name).tally
            if tally is not None:
                self._count_calls(pool, tally)

    def _count_calls(self, pool: tuple[str, str], tally: Tally) -> None:
        for cause, total in tally.deaths.items():
            self._grow(DEATHS, (("cause", cause), pool), total)
        for (method, outcome), total in tally.ends().items():
            self._grow(CALLS, (("method", method), ("outcome", outcome), pool), total)
        for method, runs in tally.runs.items():
            self._spread(DURATION, (("method", method), pool), runs)
        self._spread(WAIT, (pool,), tally.waits)

    def _spread(self, name: str, labels: LabelSet, spread: Spread) -> None:
        """The new values of each power of two are observed as so many of their mean: sum and buckets come out right."""
        for bits, total in enumerate(spread.counts):
            times = self._new(name, labels, 2 * bits, total)
            if times:
                micros = self._new(name, labels, 2 * bits + 1, spread.sums[bits])
                mean = min(micros / times, 2**bits)
                self._registry.meter("histogram", name, labels).observe(mean / 1_000_000, times)

    def _grow(self, name: str, labels: LabelSet, total: int) -> None:
        new = self._new(name, labels, 0, total)
        if new:
            self._registry.add(name, labels, new)

    def _new(self, name: str, labels: LabelSet, which: int, total: int) -> int:
        key = (name, labels, which)
        new, self._read[key] = total - self._read.get(key, 0), total
        return new

    def _counted(self) -> list[PoolStats]:
        """The pools that were started and are to be told of."""
        return [
            stats
            for name, stats in self._pools.stats().items()
            if stats.state != "new" and self._pools.get(name).options.metrics
        ]


def pool_metrics(
    registry: MetricsRegistry, pools: Pools, settings: MetricsSettings, clock: Clock, *, index: int
) -> PoolMetrics:
    """The metrics of a worker's pools. Its place among its machine's workers lasts, and so do its series."""
    labels = {"host": socket.gethostname(), "worker": str(index)}
    return PoolMetrics(registry, pools, clock, labels=labels, interval_ms=milliseconds(settings.collection.interval))
