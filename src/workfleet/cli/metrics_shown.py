"""How `metrics query` shows what it found: charts at a terminal, else a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..observe.metrics.model import CounterPoint, GaugePoint, HistogramPoint, MetricSeries, Point
from .chart import chart, short
from .output import at, plain, write, write_table

_COLUMNS = {
    "counter": (">PER SECOND", ">INCREASE"),
    "gauge": (">LAST", ">MEAN", ">MIN", ">MAX"),
    "histogram": (">COUNT", ">MEAN", ">P50"),
}
_WIDEST, _NARROWEST = 100, 10
_WHOLE_FROM, _WHOLE_TO = 1e5, 1e16


@dataclass(frozen=True)
class Shown:
    """The answer to a query, and what was asked. `host`: the machine whose measurements these are alone."""

    series: list[MetricSeries]
    from_ms: int
    to_ms: int
    step_ms: int
    quantile: float
    host: str | None


def write_points(shown: Shown) -> None:
    """A table of all points, for each kind of metric."""
    for kind in dict.fromkeys(each.kind for each in shown.series):
        extra = (f">P{shown.quantile * 100:g}",) if kind == "histogram" else ()
        rows = [
            [at(point.at_ms), *map(_number, _values(point)), _labels(each)]
            for each in shown.series
            if each.kind == kind
            for point in each.points
        ]
        write_table(("TIME", *_COLUMNS[kind], *extra, "LABELS"), rows)


def write_charts(shown: Shown) -> None:
    """A chart for each series. Where there are more steps than fit, those before are left out, and it says so."""
    from rich.console import Console  # not where a program reads: it costs a third of such a command's time

    console = Console(highlight=False)
    steps = range(shown.from_ms - shown.from_ms % shown.step_ms, shown.to_ms, shown.step_ms)
    fitting = steps[-max(min(console.width - 10, _WIDEST), _NARROWEST) :]
    first, end = at(max(fitting[0], shown.from_ms)), at(shown.to_ms)
    for number, each in enumerate(shown.series):
        if number:
            write()
        values = _by_step(each, shown, fitting)
        console.print(f"{each.name} {_labels(each)}".rstrip(), style="bold", markup=False, soft_wrap=True)
        known = [value for value in values if value is not None]
        last = f"{short(known[-1])}{_unit(each)}" if known else "none in these steps"
        left_out = f", the newest {len(fitting)} of {len(steps)} steps" if len(fitting) < len(steps) else ""
        console.print(f"{_what(each, shown)}, last {last}{left_out}", style="dim", markup=False, soft_wrap=True)
        lines = chart(values)
        for line in lines:
            console.print(line, style="cyan", markup=False, soft_wrap=True)
        room = len(lines[0]) - len(values)
        gap = max(len(values) - len(first) - len(end), 1)
        console.print(f"{' ' * room}{first}{' ' * gap}{end}", style="dim", markup=False, soft_wrap=True)


def _by_step(series: MetricSeries, shown: Shown, steps: Iterable[int]) -> list[float | None]:
    """The charted value of each step, None where nothing was measured."""
    found = {point.at_ms: _values(point)[0] for point in series.points}
    if series.kind == "histogram":
        found = {point.at_ms: _values(point)[-1] for point in series.points}
    # A counter that did not grow has a rate: none.
    nothing = 0.0 if series.kind == "counter" else None
    return [found.get(ms, nothing) for ms in steps]


def _what(series: MetricSeries, shown: Shown) -> str:
    if series.kind == "counter":
        return "per second"
    return "last value" if series.kind == "gauge" else f"quantile {shown.quantile:g}"


def _unit(series: MetricSeries) -> str:
    """The unit of its values, where the name says it. A counter is charted by its rate, which says its own."""
    if series.kind == "counter":
        return ""
    return " s" if series.name.endswith("_seconds") else "B" if series.name.endswith("_bytes") else ""


def _number(value: float) -> str:
    """A number for a person and for a program: large ones are whole, as bytes and pixels are."""
    return f"{value:.0f}" if _WHOLE_FROM <= abs(value) < _WHOLE_TO else f"{value:.6g}"


def _values(point: Point) -> tuple[float, ...]:
    """The main value first; of a histogram, the quantile that was asked for last."""
    if isinstance(point, CounterPoint):
        return point.rate, point.increase
    if isinstance(point, GaugePoint):
        return point.last, point.mean, point.min, point.max
    assert isinstance(point, HistogramPoint)
    return point.count, point.mean, point.p50, point.p95 if point.quantile is None else point.quantile


def _labels(series: MetricSeries) -> str:
    return plain(" ".join(f"{name}={value}" for name, value in series.labels.items()))
