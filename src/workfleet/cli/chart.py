"""A line of values over time as rows of block characters: for a person at a terminal."""

from __future__ import annotations

from collections.abc import Sequence

_BLOCKS = " ▁▂▃▄▅▆▇█"
_HEIGHT = 6
_NOTHING = "·"


def chart(values: Sequence[float | None], *, height: int = _HEIGHT) -> list[str]:
    """Rows from the top, a column a value; the scale goes from 0, or from the least where that is below, to the most.
    None is a step in which nothing was measured: a dot on the ground. The first and the last row say the scale."""
    known = [value for value in values if value is not None]
    low, high = min([0.0, *known]), max([0.0, *known])
    span = high - low or 1.0
    levels = [None if value is None else (value - low) / span * height * 8 for value in values]
    rows = []
    for row in range(height - 1, -1, -1):
        cells = [_cell(level, row) for level in levels]
        rows.append("".join(cells))
    names = [short(high) if row == 0 else short(low) if row == height - 1 else "" for row in range(height)]
    width = max(map(len, names))
    return [f"{name.rjust(width)} ┤{row}" for name, row in zip(names, rows, strict=True)]


def short(value: float) -> str:
    """A number as a person reads it: "0.25", "13", "1.5k", "2M"."""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def _cell(level: float | None, row: int) -> str:
    if level is None:
        return _NOTHING if row == 0 else " "
    eighths = round(level) - row * 8
    if row == 0 and level > 0:
        eighths = max(eighths, 1)  # little is not nothing
    return _BLOCKS[min(max(eighths, 0), 8)]
