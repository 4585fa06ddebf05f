"""A line of values over time as rows of block characters: for a person at a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, isnan

_BLOCKS = " ▁▂▃▄▅▆▇█"
_HEIGHT = 6
_NOTHING = "·"


def chart(values: Sequence[float | None], *, height: int = _HEIGHT) -> list[str]:
    """Rows from the top, a column a value; the scale goes from 0, or from the least where that is below, to the most.
    None, or what is no number, is a step in which nothing was measured: a dot on the ground. What is infinite is at the
    end of the scale. The first and the last row say the scale."""
    known = [value for value in values if value is not None and isfinite(value)]
    low, high = min([0.0, *known]), max([0.0, *known])
    rows = []
    levels = [None if value is None or isnan(value) else _level(value, low, high) * height * 8 for value in values]
    for row in range(height - 1, -1, -1):
        cells = [_cell(level, row) for level in levels]
        rows.append("".join(cells))
    names = [short(high) if row == 0 else short(low) if row == height - 1 else "" for row in range(height)]
    width = max(map(len, names))
    return [f"{name.rjust(width)} ┤{row}" for name, row in zip(names, rows, strict=True)]


def short(value: float) -> str:
    """A number as a person reads it: "0.25", "13", "1.5k", "2M", "3e+20"."""
    for size, unit in ((1e15, ""), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}" if unit else f"{value:.3g}"
    return f"{value:.3g}"


def _level(value: float, low: float, high: float) -> float:
    """Where it is between low and high, from 0 to 1."""
    if not isfinite(value):
        return float(value > 0)
    if not isfinite(high - low):  # the span is too large for a float
        value, low, high = value / 2, low / 2, high / 2
    return (value - low) / (high - low or 1.0)


def _cell(level: float | None, row: int) -> str:
    if level is None:
        return _NOTHING if row == 0 else " "
    eighths = round(level) - row * 8
    if row == 0 and level > 0:
        eighths = max(eighths, 1)  # little is not nothing
    return _BLOCKS[min(max(eighths, 0), 8)]
