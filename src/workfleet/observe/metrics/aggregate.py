"""From rows to points, by the kind of the metric: one definition for every store. Pure, and holds no more than points.

Counters add their increases, histograms add their buckets, gauges keep last, mean, least and most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import TypeAlias

from .model import (
    QUANTILES,
    CounterPoint,
    GaugePoint,
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


def aggregate(rows: Iterable[MetricRow], query: MetricQuery) -> list[MetricSeries]:
    """Series sorted by labels. `rows` come in any order, and are of the query's name, labels and range already."""
    steps: dict[tuple[LabelSet, Kind], dict[int, _Step]] = {}
    for row in rows:
        kept = row.labels if query.by is None else tuple(pair for pair in row.labels if pair[0] in query.by)
        start = query.from_ms if query.step_ms is None else row.at_ms - row.at_ms % query.step_ms
        of_series = steps.setdefault((kept, row.kind), {})
        step = of_series.get(start)
        if step is None:
            step = of_series[start] = _Step(start)
        step.add(row)
    return [
        MetricSeries(
            name=query.name,
            kind=kind,
            labels=dict(labels),
            points=tuple(_POINT[kind](step, query) for _, step in sorted(of_series.items())),
        )
        for (labels, kind), of_series in sorted(steps.items(), key=lambda item: item[0])
    ]


class _Step:
    """What was seen of one series in one step."""

    __slots__ = ("at_ms", "buckets", "count", "last", "last_ms", "least", "most", "rows", "total")

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms
        self.rows = self.count = 0
        self.total = self.last = 0.0
        self.last_ms = -1
        self.least, self.most = inf, -inf
        # By both ends, because a release, or another series, may have other bounds.
        self.buckets: dict[Bucket, int] = {}

    def add(self, row: MetricRow) -> None:
        self.rows += 1
        self.count += row.count
        self.total += row.value
        self.least, self.most = min(self.least, row.value), max(self.most, row.value)
        if row.at_ms >= self.last_ms:
            self.last, self.last_ms = row.value, row.at_ms
        for bucket, count in _spread(row):
            self.buckets[bucket] = self.buckets.get(bucket, 0) + count


def _counter(step: _Step, query: MetricQuery) -> Point:
    start, end = query.from_ms, query.to_ms
    if query.step_ms is not None:
        # The first and the last step may stick out of the range: what is outside was not counted.
        start, end = max(start, step.at_ms), min(end, step.at_ms + query.step_ms)
    return CounterPoint(at_ms=step.at_ms, increase=step.total, rate=step.total / ((end - start) / 1000))


def _gauge(step: _Step, query: MetricQuery) -> Point:
    return GaugePoint(at_ms=step.at_ms, last=step.last, mean=step.total / step.rows, min=step.least, max=step.most)


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


_POINT = {"counter": _counter, "gauge": _gauge, "histogram": _histogram}


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
