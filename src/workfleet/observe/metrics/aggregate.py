"""From rows to points, by the kind of the metric: one definition for every store. Pure, and holds no more than points.

Counters add their increases, histograms add their buckets; gauges are merged at each instant (`gauges.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import TypeAlias

from .catalogue import CATALOGUE
from .gauges import GaugeLine
from .model import (
    LASTS_MS,
    QUANTILES,
    CounterPoint,
    HistogramPoint,
    Kind,
    LabelSet,
    MetricQuery,
    MetricRow,
    MetricSeries,
    Point,
)

Bucket: TypeAlias = tuple[float, float]
"""Its lower and its upper end."""
_TINY = 1e-9


def matches(labels: LabelSet, query: MetricQuery) -> bool:
    """Whether a series has every label that the query wants."""
    return set(query.labels.items()) <= set(labels)


def reads_from_ms(kind: Kind, query: MetricQuery) -> int:
    """The first instant whose rows a query needs: what a gauge was before still holds when the range begins."""
    return query.from_ms - LASTS_MS if kind == "gauge" else query.from_ms


class Aggregation:
    """The answer to a query, which takes rows in pieces. They are of the query's name and labels, and from
    `reads_from_ms` to its end; those of gauges come in order of time, the others in any."""

    def __init__(self, query: MetricQuery) -> None:
        self._query = query
        self._steps: dict[tuple[LabelSet, Kind], dict[int, _Step]] = {}
        self._lines: dict[LabelSet, GaugeLine] = {}
        self._line_of: dict[LabelSet, GaugeLine] = {}
        """By all labels, so that those which are kept are looked for once, not with every row."""
        ours = CATALOGUE.get(query.name)
        self._merge = query.merge or (ours.merge if ours is not None else "sum")

    def add(self, rows: Iterable[MetricRow]) -> None:
        for row in rows:
            if row.kind == "gauge":
                line = self._line_of.get(row.labels) or self._line(row.labels)
                line.put(row.labels, row.at_ms, row.value)
            else:
                self._count(row)

    def series(self) -> list[MetricSeries]:
        """Sorted by labels. Call it once, at the end."""
        points: dict[tuple[LabelSet, Kind], tuple[Point, ...]] = {
            (labels, "gauge"): line.points() for labels, line in self._lines.items()
        }
        for key, of_series in self._steps.items():
            points[key] = tuple(_POINT[key[1]](step, self._query) for _, step in sorted(of_series.items()))
        return [
            MetricSeries(name=self._query.name, kind=kind, labels=dict(labels), points=found)
            for (labels, kind), found in sorted(points.items(), key=lambda item: item[0])
            if found
        ]

    def _line(self, labels: LabelSet) -> GaugeLine:
        kept = self._kept(labels)
        if kept not in self._lines:
            self._lines[kept] = GaugeLine(self._query, self._merge)
        line = self._line_of[labels] = self._lines[kept]
        return line

    def _count(self, row: MetricRow) -> None:
        query = self._query
        start = query.from_ms if query.step_ms is None else row.at_ms - row.at_ms % query.step_ms
        of_series = self._steps.setdefault((self._kept(row.labels), row.kind), {})
        step = of_series.get(start)
        if step is None:
            step = of_series[start] = _Step(start)
        step.add(row)

    def _kept(self, labels: LabelSet) -> LabelSet:
        by = self._query.by
        return labels if by is None else tuple(pair for pair in labels if pair[0] in by)


class _Step:
    """What was counted of one series in one step."""

    __slots__ = ("at_ms", "buckets", "count", "total")

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms
        self.count, self.total = 0, 0.0
        # By both ends, because a release, or another series, may have other bounds.
        self.buckets: dict[Bucket, int] = {}

    def add(self, row: MetricRow) -> None:
        self.count += row.count
        self.total += row.value
        for bucket, count in _spread(row):
            self.buckets[bucket] = self.buckets.get(bucket, 0) + count


def _counter(step: _Step, query: MetricQuery) -> Point:
    start, end = query.from_ms, query.to_ms
    if query.step_ms is not None:
        # The first and the last step may stick out of the range: what is outside was not counted.
        start, end = max(start, step.at_ms), min(end, step.at_ms + query.step_ms)
    return CounterPoint(at_ms=step.at_ms, increase=step.total, rate=step.total / ((end - start) / 1000))


def _histogram(step: _Step, query: MetricQuery) -> Point:
    p50, p90, p95, p99 = (quantile(step.buckets, share) for share in QUANTILES)
    mean = step.total / step.count if step.count else 0.0
    asked = None if query.quantile is None else quantile(step.buckets, query.quantile)
    return HistogramPoint(
        at_ms=step.at_ms,
        count=step.count,
        sum=step.total,
        mean=mean,
        p50=p50,
        p90=p90,
        p95=p95,
        p99=p99,
        quantile=asked,
    )


_POINT = {"counter": _counter, "histogram": _histogram}


def quantile(buckets: Mapping[Bucket, int], share: float) -> float:
    """The value below which that share of the observations is, each taken as evenly spread within its bucket.

    Buckets may overlap: they are those of histograms with different bounds. What is above all bounds of its histogram
    counts as the highest bound of all.
    """
    seen = [(low, bound, count) for (low, bound), count in buckets.items() if count]
    edges = sorted({edge for low, bound in buckets for edge in (low, bound) if edge != inf})
    rank = share * sum(count for _, _, count in seen)
    before, below = 0.0, 0.0
    for edge in edges:
        left = sum(count * _part(low, bound, edge) for low, bound, count in seen)
        if left and left >= rank - _TINY:
            return before + (edge - before) * max(rank - below, 0.0) / (left - below) if left > below else edge
        here = left + sum(count for low, bound, count in seen if low == bound == edge)
        if here and here >= rank - _TINY:
            return edge
        before, below = edge, here
    return edges[-1] if seen and edges else 0.0


def _part(low: float, bound: float, edge: float) -> float:
    """The part of a bucket that is below an edge."""
    if edge >= bound:
        return float(low != bound or edge > bound)
    return (edge - low) / (bound - low) if low < edge and bound != inf else 0.0


def _spread(row: MetricRow) -> Iterator[tuple[Bucket, int]]:
    """A histogram's counts by bucket. The first one begins at 0; where it ends below, all in it is at its end."""
    low = min(0.0, row.bounds[0]) if row.bounds else 0.0
    for bound, count in zip((*row.bounds, inf), row.buckets, strict=False):
        yield (low, bound), count
        low = bound
