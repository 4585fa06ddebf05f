"""The values of metrics: what is measured, written and read. Pure; instants and durations are integer milliseconds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from math import inf
from typing import Literal, TypeAlias

from msgspec import Struct

from workfleet.errors import UsageError
from workfleet.ports.metrics import Kind, LabelSet, MetricRow, Sample

__all__ = ["Kind", "LabelSet", "MetricRow", "Sample"]  # of the ports; the rest is of here

DEFAULT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
"""Upper bounds in seconds, from a quick job to one of an hour."""

QUANTILES = (0.5, 0.9, 0.95, 0.99)
MAX_STEPS = 10_000

UNCHANGED_MS = 240_000
"""A gauge that has not changed is written anew after that, at the next flush."""
LASTS_MS = 360_000
"""For so long a gauge's value holds after it was written: that row may come a minute late, and at a slow flush."""

Merge = Literal["sum", "max", "min", "mean"]
"""What several gauges are together, at each instant."""

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")
_LONGEST_LABEL = 1_000
_RESERVED_LABELS = frozenset({"le", "quantile"})


class StoredSeries(Struct, frozen=True, kw_only=True):
    """A series that a store keeps, and the instant of its newest row."""

    name: str
    kind: Kind
    labels: LabelSet
    at_ms: int


class StoredSample(Struct, frozen=True, kw_only=True):
    """What a stored series comes to: the sum of a counter and of a histogram as far back as the store keeps them, the
    newest value of a gauge. `at_ms` is its newest row's."""

    name: str
    kind: Kind
    labels: LabelSet
    at_ms: int
    value: float
    count: int = 0
    bounds: tuple[float, ...] = ()
    buckets: tuple[int, ...] = ()


class MetricQuery(Struct, frozen=True, kw_only=True):
    """Rows of one name in [from_ms, to_ms). Every pair of `labels` must be there.

    `step_ms` cuts time into steps at multiples of it since 1970; None makes one point of the whole. `by` keeps only
    these labels and merges what is then the same; None keeps all, so that each series stays by itself. `merge` is how
    gauges are merged; None: as is right for the name, else to their sum. `quantile`, from 0 to 1, is one more that a
    histogram's points have.
    """

    name: str
    from_ms: int
    to_ms: int
    labels: Mapping[str, str] = {}
    step_ms: int | None = None
    by: tuple[str, ...] | None = None
    merge: Merge | None = None
    quantile: float | None = None


class CounterPoint(Struct, frozen=True, kw_only=True, tag_field="kind", tag="counter"):
    """How much a counter grew in a step, and how much per second."""

    at_ms: int
    increase: float
    rate: float


class GaugePoint(Struct, frozen=True, kw_only=True, tag_field="kind", tag="gauge"):
    """What a gauge was in a step, or several as one. `last` is its newest value; in `mean`, each value counts for as
    long as it held."""

    at_ms: int
    last: float
    mean: float
    min: float
    max: float


class HistogramPoint(Struct, frozen=True, kw_only=True, tag_field="kind", tag="histogram"):
    """A distribution in a step. Quantiles are interpolated within buckets, and at most the highest bound."""

    at_ms: int
    count: int
    sum: float
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    quantile: float | None = None
    """The one that the query asks for."""


Point: TypeAlias = CounterPoint | GaugePoint | HistogramPoint


class MetricSeries(Struct, frozen=True, kw_only=True):
    """One line of a chart: points in order of time; a step in which nothing happened has none."""

    name: str
    kind: Kind
    labels: dict[str, str]
    points: tuple[Point, ...]


def label_set(labels: Mapping[str, str] | None) -> LabelSet:
    """The identity of labels, whatever their order. Of a value, the first 1,000 characters count."""
    if not labels:
        return ()
    return tuple(sorted((name, _value(value)) for name, value in labels.items()))


def _value(value: object) -> str:
    text = str(value)[:_LONGEST_LABEL]
    # Half of a surrogate pair is no text that anybody could be sent.
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def number(name: str, value: object) -> float:
    """What user code has measured, of any type of number, as every reader understands it; what is too large for that is
    infinite. Raises `UsageError` for what is no number."""
    try:
        if not isinstance(value, str | bytes):
            return float(value)  # type: ignore[arg-type]
    except OverflowError:
        return inf
    except (TypeError, ValueError):
        pass
    raise UsageError(f"metric {name}: {value!r} is no number")


def check_names(name: str, labels: Iterable[tuple[str, str]]) -> None:
    """Raises `UsageError` for a name or a label that Prometheus would not take."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no metric name: use letters, digits, _ and :, and no digit first")
    for label, _ in labels:
        if not _LABEL.fullmatch(label) or label in _RESERVED_LABELS:
            raise UsageError(
                f"metric {name}: {label!r} is no label name: use letters, digits and _, no digit and no __ first, "
                "and neither 'le' nor 'quantile'"
            )


def check_query(query: MetricQuery) -> None:
    """Raises `UsageError` for a range that is empty, for steps that are too many or no steps, for no quantile, and for
    a way to merge where nothing is merged."""
    span = query.to_ms - query.from_ms
    if span <= 0:
        raise UsageError("the time range is empty: its end must be after its start")
    if query.step_ms is not None and query.step_ms <= 0:
        raise UsageError("a step must be longer than nothing")
    if query.step_ms is not None and span / query.step_ms > MAX_STEPS:
        raise UsageError(f"{span / query.step_ms:.0f} steps are too many: at most {MAX_STEPS}, so take a longer step")
    if query.quantile is not None and not 0 <= query.quantile <= 1:
        raise UsageError(f"{query.quantile:g} is no quantile: it is a share from 0 to 1, such as 0.95")
    if query.merge is not None and query.by is None:
        raise UsageError("merge says how gauges become one: say by which labels, too")
