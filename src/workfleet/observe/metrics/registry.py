"""The counters, gauges and histograms of this process, safe to use from any thread. Must not know who stores them.

Labels are part of a series' identity. The number of series is limited: what would be one more is not counted but told,
in `workfleet_metrics_dropped_total{reason="series_limit"}`, so that a label with endless values cannot take the memory.
The application's own series and workfleet's have a limit each, so that neither takes the other's room.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from math import isfinite
from typing import Literal

from workfleet.errors import UsageError

from .catalogue import PREFIX
from .model import DEFAULT_BUCKETS, Kind, LabelSet, MetricRow, Sample, check_names, label_set, number
from .names import Names
from .series import Series

DROPPED = "workfleet_metrics_dropped_total"
DropReason = Literal["series_limit", "not_finite", "buffer_full", "memory_full", "conflict", "too_large"]


class MetricsRegistry:
    """The sink for user code (`counter`, `gauge`, `histogram`) and for our own (`add`, `put`, `observe`).

    The first use of a name decides its kind; another one raises `UsageError`. Values that are not finite, or make a sum
    that is not, are dropped and counted.
    """

    def __init__(self, *, max_series: int = 10_000) -> None:
        """`max_series` holds for the names that begin with `workfleet_`, and for the others together."""
        self._max_series = max_series
        self._series: dict[tuple[str, LabelSet], Series] = {}
        self._taken = {True: 0, False: 0}
        """Series of ours, and of the application."""
        self._names = Names(limit=max_series)
        # User code counts from threads.
        self._lock = threading.Lock()
        self._before_reading: list[Callable[[], None]] = []
        self._when_measured: Callable[[], None] | None = None

    def define(self, name: str, kind: Kind, *, buckets: Sequence[float] | None = None) -> None:
        """Fix the kind of a name, and a histogram's upper bounds, before its first use.

        Raises `UsageError` when it is fixed otherwise already, and for bounds that are not finite and ascending.
        """
        check_names(name, ())
        bounds = DEFAULT_BUCKETS if buckets is None else tuple(float(bound) for bound in buckets)
        ascending = all(low < high for low, high in pairwise(bounds))
        if not bounds or not ascending or not all(map(isfinite, bounds)):
            raise UsageError(f"metric {name}: buckets must be finite upper bounds in ascending order")
        with self._lock:
            self._names.fix(name, kind)
            if kind == "histogram":
                self._names.fix_bounds(name, bounds)

    def counter(self, name: str, amount: float = 1, *, labels: Mapping[str, str] | None = None) -> None:
        grown = number(name, amount)
        if grown < 0:
            raise UsageError(f"metric {name}: a counter only grows, so it takes no {amount}")
        self.add(name, label_set(labels), grown)
        self._told()

    def gauge(self, name: str, value: float, *, labels: Mapping[str, str] | None = None) -> None:
        self.put(name, label_set(labels), number(name, value))
        self._told()

    def histogram(self, name: str, value: float, *, labels: Mapping[str, str] | None = None) -> None:
        self.observe(name, label_set(labels), number(name, value))
        self._told()

    def meter(self, kind: Kind, name: str, labels: LabelSet) -> Meter:
        """A series, looked up once: for what is counted with every job. `labels` are sorted already."""
        with self._lock:
            return Meter(self, self._lock, self._of(kind, name, labels, 0))

    def add(self, name: str, labels: LabelSet, amount: float = 1) -> None:
        """Grow a counter. `labels` are sorted already."""
        with self._lock:
            series = self._of("counter", name, labels, amount)
            if series is not None and self._sums(series, amount):
                series.grow(amount)

    def put(self, name: str, labels: LabelSet, value: float) -> None:
        """Set a gauge. `labels` are sorted already."""
        with self._lock:
            series = self._of("gauge", name, labels, value)
            if series is not None:
                series.set(value)

    def observe(self, name: str, labels: LabelSet, value: float) -> None:
        """Add an observation to a histogram. `labels` are sorted already."""
        with self._lock:
            series = self._of("histogram", name, labels, value)
            if series is not None and self._sums(series, value):
                series.grow(value)
                series.new_buckets[bisect_left(series.bounds, value)] += 1

    def absorb(self, rows: Iterable[MetricRow]) -> None:
        """Count what another process has counted. What is of another kind here, or in other buckets, is dropped and
        counted."""
        with self._lock:
            for row in rows:
                try:
                    self._names.fix(row.name, row.kind)
                    if row.kind == "histogram":
                        self._names.fix_bounds(row.name, row.bounds)
                    series = self._of(row.kind, row.name, row.labels, row.value)
                except UsageError:
                    self._dropped("conflict", 1)
                    continue
                if series is not None:
                    self._take_in(series, row)

    def _take_in(self, series: Series, row: MetricRow) -> None:
        if series.bounds != row.bounds:  # one of more names than are remembered
            self._dropped("conflict", 1)
        elif row.kind == "gauge":
            series.set(row.value)
        elif self._sums(series, row.value):
            series.grow(row.value)
            series.new_buckets = [mine + new for mine, new in zip(series.new_buckets, row.buckets, strict=True)]

    def forget(self, name: str, labels: LabelSet) -> None:
        """A gauge of something that is gone has no value any more. `labels` are sorted already."""
        with self._lock:
            if self._names.kind(name) == "gauge" and self._series.pop((name, labels), None) is not None:
                self._taken[name.startswith(PREFIX)] -= 1

    def withhold(self, name: str, labels: LabelSet) -> None:
        """A gauge whose value nobody knows at the moment is in no snapshot until it is set again. What was set before
        is drained all the same: it was so. `labels` are sorted already."""
        with self._lock:
            series = self._series.get((name, labels))
            if series is not None and series.kind == "gauge":
                series.withheld = True

    def drop(self, reason: DropReason, count: int = 1) -> None:
        """Count what was thrown away."""
        with self._lock:
            self._dropped(reason, count)

    def when_measured(self, call: Callable[[], None]) -> None:
        """Call this whenever user code has measured something; it must be quick."""
        self._when_measured = call

    def _told(self) -> None:
        if self._when_measured is not None:
            self._when_measured()

    def before_reading(self, count: Callable[[], None]) -> None:
        """Call this before anybody reads: who counts in bulk counts what is left."""
        self._before_reading.append(count)

    def drain(self, at_ms: int) -> list[MetricRow]:
        """What changed since the last drain, as rows of this instant. A gauge has a row when it was set."""
        for count in self._before_reading:
            count()
        with self._lock:
            return [
                series.drained(name, labels, at_ms) for (name, labels), series in self._series.items() if series.touched
            ]

    def snapshot(self) -> list[Sample]:
        """Every series as it stands, by name and labels, without gauges that are withheld."""
        for count in self._before_reading:
            count()
        with self._lock:
            there = sorted(self._series.items(), key=_key)
            return [series.sample(name, labels) for (name, labels), series in there if not series.withheld]

    def _of(self, kind: Kind, name: str, labels: LabelSet, value: float) -> Series | None:
        series = self._series.get((name, labels))
        new = series is None or series.kind != kind
        if new:
            check_names(name, labels)
            self._names.fix(name, kind)
        if not isfinite(value):
            self._dropped("not_finite", 1)
            return None
        return self._new(kind, name, labels) if new else series

    def _new(self, kind: Kind, name: str, labels: LabelSet) -> Series | None:
        ours = name.startswith(PREFIX)
        if self._taken[ours] >= self._max_series and name != DROPPED:
            self._dropped("series_limit", 1)
            return None
        self._taken[ours] += name != DROPPED
        bounds = self._names.bounds(name) if kind == "histogram" else ()
        series = self._series[name, labels] = Series(kind, bounds)
        return series

    def _sums(self, series: Series, value: float) -> bool:
        """Whether it can be added: no store keeps a sum that is infinite."""
        if isfinite(series.value + value):
            return True
        self._dropped("not_finite", 1)
        return False

    def _dropped(self, reason: DropReason, count: int) -> None:
        series = self._of("counter", DROPPED, (("reason", reason),), count)
        if series is not None:
            series.grow(count)


class Meter:
    """One series of a registry. Where there was no room for it, what is counted is told as dropped."""

    __slots__ = ("_lock", "_registry", "_series")

    def __init__(self, registry: MetricsRegistry, lock: threading.Lock, series: Series | None) -> None:
        self._registry, self._lock, self._series = registry, lock, series

    def add(self, amount: float = 1) -> None:
        """Grow a counter."""
        series = self._series
        if series is None:
            self._registry.drop("series_limit", int(amount))
            return
        with self._lock:
            series.grow(amount)

    def observe(self, value: float, times: int = 1) -> None:
        """Add an observation, a finite number, to a histogram, so many times."""
        series = self._series
        if series is None:
            self._registry.drop("series_limit", times)
            return
        with self._lock:
            series.grow(value * times)
            series.new_buckets[bisect_left(series.bounds, value)] += times


def _key(item: tuple[tuple[str, LabelSet], Series]) -> tuple[str, LabelSet]:
    return item[0]
