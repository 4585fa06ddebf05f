"""Which rows a metric store does not need: those of gauges that are what they were. Must not know who writes.

Most gauges of an idle worker stay what they are, and a store that was told so every time would hold little else.
"""

from __future__ import annotations

from collections.abc import Iterable

from .model import UNCHANGED_MS, LabelSet, MetricRow


class Unchanged:
    """Remembers what was handed on, and hands it on once more after `again_ms`, so that whoever reads can tell what is
    still so from what is gone."""

    def __init__(self, *, again_ms: int = UNCHANGED_MS) -> None:
        self._again_ms = again_ms
        # The oldest first.
        self._known: dict[tuple[str, LabelSet], tuple[float, int]] = {}

    def left_out(self, rows: Iterable[MetricRow]) -> list[MetricRow]:
        """The rows without those that say nothing new."""
        return [row for row in rows if row.kind != "gauge" or self._is_new(row)]

    def forget(self) -> None:
        """What was handed on is lost: hand all on again."""
        self._known.clear()

    def _is_new(self, row: MetricRow) -> bool:
        self._let_go(row.at_ms)
        key = row.name, row.labels
        value, at_ms = self._known.get(key, (None, 0))
        # One of before was made by a clock that was set back.
        if value == row.value and at_ms <= row.at_ms < at_ms + self._again_ms:
            return False
        self._known.pop(key, None)
        self._known[key] = row.value, row.at_ms
        return True

    def _let_go(self, now_ms: int) -> None:
        """What is gone must not take memory, and what is due again is as good as unknown."""
        while self._known:
            key, (_, at_ms) = next(iter(self._known.items()))
            if now_ms < at_ms + self._again_ms:
                return
            del self._known[key]
