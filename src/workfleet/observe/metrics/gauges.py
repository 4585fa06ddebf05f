"""What gauges come to over time: merged at each instant, and then seen by steps. Pure, and holds no more than points.

A value holds until the next one of its series, and no longer than `LASTS_MS`: one that does not change is written
seldom, and one that nobody writes any more is of something that is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from math import inf
from types import MappingProxyType

from .model import LASTS_MS, GaugePoint, LabelSet, Merge, MetricQuery

MERGED: Mapping[Merge, Callable[[Collection[float]], float]] = MappingProxyType(
    {"sum": sum, "max": max, "min": min, "mean": lambda values: sum(values) / len(values)}
)


class GaugeLine:
    """One line of a chart, which may be several series."""

    __slots__ = ("_ends", "_merged", "_now_ms", "_query", "_steps", "_values")

    def __init__(self, query: MetricQuery, merge: Merge) -> None:
        self._query, self._merged = query, MERGED[merge]
        self._now_ms = query.from_ms
        self._values: dict[LabelSet, float] = {}
        # When each value ends; the first one is the first to end, because values come in order.
        self._ends: dict[LabelSet, int] = {}
        self._steps: list[_Step] = []

    def put(self, series: LabelSet, at_ms: int, value: float) -> None:
        """What a series was from then on. Values come in order of time, of before the range, too."""
        goes_on = self._ends.get(series, 0) > at_ms and self._values[series] == value
        # What is set at one instant is seen together: a job that has moved on is in one state, not in two.
        if not goes_on and at_ms > self._now_ms:
            self._pass(at_ms)
        self._ends.pop(series, None)
        self._values[series], self._ends[series] = value, at_ms + LASTS_MS

    def points(self) -> tuple[GaugePoint, ...]:
        """Call it once, when all has been put."""
        self._pass(self._query.to_ms)
        return tuple(step.point() for step in self._steps)

    def _pass(self, until_ms: int) -> None:
        while self._values and self._now_ms < until_ms:
            first, end_ms = next(iter(self._ends.items()))
            if end_ms <= self._now_ms:
                del self._ends[first], self._values[first]
            else:
                self._hold(self._merged(self._values.values()), min(until_ms, end_ms))
        self._now_ms = until_ms

    def _hold(self, value: float, until_ms: int) -> None:
        step_ms = self._query.step_ms
        while self._now_ms < until_ms:
            start_ms = self._query.from_ms if step_ms is None else self._now_ms - self._now_ms % step_ms
            if not self._steps or self._steps[-1].at_ms != start_ms:
                self._steps.append(_Step(start_ms))
            end_ms = until_ms if step_ms is None else min(until_ms, start_ms + step_ms)
            self._steps[-1].add(value, end_ms - self._now_ms)
            self._now_ms = end_ms


class _Step:
    __slots__ = ("area", "at_ms", "last", "lasted_ms", "least", "most")

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms
        self.area = self.last = 0.0
        self.lasted_ms = 0
        self.least, self.most = inf, -inf

    def add(self, value: float, for_ms: int) -> None:
        self.last = value
        self.area += value * for_ms
        self.lasted_ms += for_ms
        self.least, self.most = min(self.least, value), max(self.most, value)

    def point(self) -> GaugePoint:
        # Rounding must not take it out of what was seen.
        mean = min(max(self.area / self.lasted_ms, self.least), self.most)
        return GaugePoint(at_ms=self.at_ms, last=self.last, mean=mean, min=self.least, max=self.most)
