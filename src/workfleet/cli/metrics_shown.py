"""How `metrics query` shows what it found: charts at a terminal, else a table."""

from __future__ import annotations

from dataclasses import dataclass

from ..observe.metrics.model import CounterPoint, GaugePoint, HistogramPoint, MetricSeries, Point
from .chart import chart, short
from .output import at, plain, write, write_table

_COLUMNS = {
    "counter": (">PER SECOND", ">INCREASE"),
    "gauge": (">LAST", ">MEAN", ">MIN", ">MAX"),
    "histogram": (">COUNT", ">MEAN", ">P50"),
}
_WIDEST = 100


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
            [at(point.at_ms), *(f"{value:.6g}" for value in _values(point)), _labels(each)]
            for each in shown.series
            if each.kind == kind
            for point in each.points
        ]
        write_table(("TIME", *_COLUMNS[kind], *extra, "LABELS"), rows)


def write_charts(shown: Shown) -> None:
    """A chart for each series."""
    from rich.console import Console  # not where a program reads: it costs a third of such a command's time

    console = Console(highlight=False)
    for number, each in enumerate(shown.series):
        if number:
            write()
        values = _by_step(each, shown, max(min(console.width - 10, _WIDEST), 10))
        console.print(f"{each.name} {_labels(each)}".rstrip(), style="bold", markup=False, soft_wrap=True)
        last = next(value for value in reversed(values) if value is not None)
        console.print(f"{_what(each, shown)}, last {short(last)}", style="dim", markup=False, soft_wrap=True)
        lines = chart(values)
        for line in lines:
            console.print(line, style="cyan", markup=False, soft_wrap=True)
        room = len(lines[0]) - len(values)
        first, end = at(shown.from_ms), at(shown.to_ms)
        gap = max(len(values) - len(first) - len(end), 1)
        console.print(f"{' ' * room}{first}{' ' * gap}{end}", style="dim", markup=False, soft_wrap=True)


def _by_step(series: MetricSeries, shown: Shown, width: int) -> list[float | None]:
    """The charted value of each step, None where nothing was measured; where there are more than fit, the newest."""
    found = {point.at_ms: _values(point)[0] for point in series.points}
    if series.kind == "histogram":
        found = {point.at_ms: _values(point)[-1] for point in series.points}
    first = shown.from_ms - shown.from_ms % shown.step_ms
    # A counter that did not grow has a rate: none.
    nothing = 0.0 if series.kind == "counter" else None
    return [found.get(ms, nothing) for ms in range(first, shown.to_ms, shown.step_ms)][-width:]


def _what(series: MetricSeries, shown: Shown) -> str:
    if series.kind == "counter":
        return "per second"
    return "last value" if series.kind == "gauge" else f"quantile {shown.quantile:g}"


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
