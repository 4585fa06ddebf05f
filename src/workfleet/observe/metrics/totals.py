"""From rows to what each series comes to: one definition for every store. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from .model import Kind, LabelSet, MetricRow, StoredSample, StoredSeries


def totals(rows: Iterable[MetricRow]) -> list[StoredSample]:
    """One sample for each series, by name and labels: a counter's and a histogram's sum, a gauge's newest value.

    Rows come in any order; a store may have added rows of one series up before.
    """
    found: dict[tuple[str, LabelSet, Kind], _Total] = {}
    for row in rows:
        key = row.name, row.labels, row.kind
        total = found.get(key)
        if total is None:
            total = found[key] = _Total()
        total.add(row)
    return [total.sample(name, kind, labels) for (name, labels, kind), total in sorted(found.items(), key=_key)]


def newest(found: Iterable[StoredSeries]) -> list[StoredSeries]:
    """The newest of each series, by name, labels and kind."""
    ends: dict[tuple[str, LabelSet, Kind], StoredSeries] = {}
    for each in found:
        key = each.name, each.labels, each.kind
        if key not in ends or ends[key].at_ms < each.at_ms:
            ends[key] = each
    return [ends[key] for key in sorted(ends)]


class _Total:
    __slots__ = ("at_ms", "buckets", "count", "value")

    def __init__(self) -> None:
        self.at_ms, self.value, self.count = -1, 0.0, 0
        # By upper bound, because a release may have changed the bounds.
        self.buckets: dict[float, int] = {}

    def add(self, row: MetricRow) -> None:
        if row.kind == "gauge":
            self.value = row.value if row.at_ms >= self.at_ms else self.value
        else:
            self.value += row.value
        self.count += row.count
        self.at_ms = max(self.at_ms, row.at_ms)
        for bound, count in zip((*row.bounds, inf), row.buckets, strict=False):
            self.buckets[bound] = self.buckets.get(bound, 0) + count

    def sample(self, name: str, kind: Kind, labels: LabelSet) -> StoredSample:
        bounds = tuple(sorted(bound for bound in self.buckets if bound != inf))
        return StoredSample(
            name=name,
            kind=kind,
            labels=labels,
            at_ms=self.at_ms,
            value=self.value,
            count=self.count,
            bounds=bounds,
            buckets=tuple(self.buckets.get(bound, 0) for bound in (*bounds, inf)) if self.buckets else (),
        )


def _key(item: tuple[tuple[str, LabelSet, Kind], _Total]) -> tuple[str, LabelSet, Kind]:
    return item[0]
