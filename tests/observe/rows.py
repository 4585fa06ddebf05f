"""Rows to write and questions to ask: what the tests of metric stores share."""

from __future__ import annotations

from typing import Any

from workfleet.observe.metrics.model import MetricQuery, MetricRow


def row(at_ms: int, value: float, name: str = "x", kind: Any = "counter", **labels: str) -> MetricRow:
    return MetricRow(name=name, kind=kind, labels=tuple(sorted(labels.items())), at_ms=at_ms, value=value)


def histogram(at_ms: int, total: float, bounds: tuple[float, ...], *buckets: int) -> MetricRow:
    return MetricRow(
        name="h",
        kind="histogram",
        labels=(),
        at_ms=at_ms,
        value=total,
        count=sum(buckets),
        bounds=bounds,
        buckets=buckets,
    )


def ask(name: str = "x", from_ms: int = 0, to_ms: int = 100_000, **rest: Any) -> MetricQuery:
    return MetricQuery(name=name, from_ms=from_ms, to_ms=to_ms, **rest)
