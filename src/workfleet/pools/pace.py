"""How many calls may be sent ahead to a busy child. A pure judgement over how long a method's calls took.

A call that waits in a busy child cannot move to one that becomes idle, so only calls go ahead whose method is quick and
has not once been slow lately, and at most about two milliseconds of work. A slow one then delays at most these few.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_QUICK_MICROS: Final = 500
"""On average."""
_SLOW_MICROS: Final = 5_000
_TIMES_IN_A_ROW: Final = 32
_AHEAD_MICROS: Final = 2_000
_MOST: Final = 128


class Pace:
    """By method: the mean duration, and how many calls in a row were not slow."""

    def __init__(self) -> None:
        self._means: dict[str, float] = {}
        self._streaks: dict[str, int] = {}
        self._lines: dict[str, int] = {}

    def took(self, method: str, *micros: int) -> None:
        """How long calls took, in the order in which they ended."""
        mean, streak = self._means.get(method, micros[0]), self._streaks.get(method, 0)
        for each in micros:
            mean += (each - mean) * 0.1
            streak = streak + 1 if each < _SLOW_MICROS else 0
        self._means[method], self._streaks[method] = mean, streak
        if streak < _TIMES_IN_A_ROW or mean > _QUICK_MICROS:
            self._lines[method] = 1
        else:
            self._lines[method] = _MOST if mean * _MOST < _AHEAD_MICROS else int(_AHEAD_MICROS / mean)

    def line(self, method: str) -> int:
        """How many calls a child may have in all, the running one included, when the last is of this method."""
        return self._lines.get(method, 1)

    def mean_ms(self, methods: Iterable[str]) -> float | None:
        """Over calls of these methods; one that was never completed counts as the mean of those that were. None when
        none was."""
        if not self._means:
            return None
        unknown = sum(self._means.values()) / len(self._means)
        means = [self._means.get(method, unknown) for method in methods] or [unknown]
        return sum(means) / len(means) / 1000
