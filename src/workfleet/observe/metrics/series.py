"""One series in memory: what it is since the start, and what is new since it was last handed on. It has no lock: its
registry does."""

from __future__ import annotations

from .model import Kind, LabelSet, MetricRow, Sample


class Series:
    """One series: what it is since the start, and what is new since the last drain."""

    __slots__ = ("bounds", "buckets", "kind", "new_buckets", "new_value", "touched", "value", "withheld")

    def __init__(self, kind: Kind, bounds: tuple[float, ...]) -> None:
        self.kind, self.bounds = kind, bounds
        self.value = self.new_value = 0.0
        self.buckets = [0] * (len(bounds) + 1) if bounds else []
        self.new_buckets = self.buckets[:]
        self.touched = False
        self.withheld = False
        """A gauge that nobody can read at the moment: no sample has it until it is set again."""

    def set(self, value: float) -> None:
        """A gauge's value."""
        self.value = self.new_value = value
        self.touched, self.withheld = True, False

    def grow(self, amount: float) -> None:
        """A counter's increase, or what a histogram's sum grows by."""
        self.value += amount
        self.new_value += amount
        self.touched = True

    def drained(self, name: str, labels: LabelSet, at_ms: int) -> MetricRow:
        row = MetricRow(
            name=name,
            kind=self.kind,
            labels=labels,
            at_ms=at_ms,
            value=self.new_value,
            count=sum(self.new_buckets),
            bounds=self.bounds,
            buckets=tuple(self.new_buckets),
        )
        self.buckets = [old + new for old, new in zip(self.buckets, self.new_buckets, strict=True)]
        self.new_value, self.new_buckets, self.touched = 0.0, [0] * len(self.buckets), False
        return row

    def sample(self, name: str, labels: LabelSet) -> Sample:
        buckets = tuple(old + new for old, new in zip(self.buckets, self.new_buckets, strict=True))
        return Sample(
            name=name,
            kind=self.kind,
            labels=labels,
            value=self.value,
            count=sum(buckets),
            bounds=self.bounds,
            buckets=buckets,
        )
