"""From rows to points, by the kind of the metric: one definition for every store. Pure, and holds no more than points.

Counters add their increases, histograms add their buckets, gauges keep last, mean, least and most.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

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
        # By upper bound, because a release may have changed the bounds.
        self.buckets: dict[float, int] = {}

    def add(self, row: MetricRow) -> None:
        self.rows += 1
        self.count += row.count
        self.total += row.value
        self.least, self.most = min(self.least, row.value), max(self.most, row.value)
        if row.at_ms >= self.last_ms:
            self.last, self.last_ms = row.value, row.at_ms
        for bound, count in zip((*row.bounds, inf), row.buckets, strict=False):
            self.buckets[bound] = self.buckets.get(bound, 0) + count


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


def quantile(buckets: dict[float, int], share: float) -> float:
    """The value below which that share of the observations is, taken as evenly spread within their bucket.

    `buckets` counts observations by upper bound. What is above all bounds counts as the highest of them.
    """
    rank = share * sum(buckets.values())
    low, below = 0.0, 0
    for bound, count in sorted(buckets.items()):
        if count and below + count >= rank:
            if bound == inf:
                return low
            low = min(low, bound)
            return low + (bound - low) * (rank - below) / count
        low, below = (bound if bound != inf else low), below + count
    return 0.0
