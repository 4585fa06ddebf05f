"""The obvious metric store: rows in a list, lost with the process. For tests and for `memory://`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from .aggregate import Aggregation, matches, reads_from_ms
from .model import MetricQuery, MetricRow, MetricSeries, StoredSample, StoredSeries, check_query
from .totals import totals


class MemoryMetricStore:
    """Keeps the newest `limit` rows. `dropped` is told how many older ones had to go for new ones."""

    def __init__(self, *, limit: int = 100_000, dropped: Callable[[int], None] | None = None) -> None:
        self._rows: deque[MetricRow] = deque(maxlen=limit)
        self._limit, self._dropped = limit, dropped

    async def write(self, rows: Sequence[MetricRow]) -> None:
        surplus = len(self._rows) + len(rows) - self._limit
        self._rows.extend(rows)
        if surplus > 0 and self._dropped is not None:
            self._dropped(surplus)

    async def query(self, query: MetricQuery) -> list[MetricSeries]:
        check_query(query)
        found = [
            row
            for row in self._rows
            if row.name == query.name
            and reads_from_ms(row.kind, query) <= row.at_ms < query.to_ms
            and matches(row.labels, query)
        ]
        aggregation = Aggregation(query)
        aggregation.add(sorted(found, key=lambda row: row.at_ms))
        return aggregation.series()

    async def series(self) -> list[StoredSeries]:
        return [
            StoredSeries(name=each.name, kind=each.kind, labels=each.labels, at_ms=each.at_ms)
            for each in await self.totals()
        ]

    async def totals(self) -> list[StoredSample]:
        return totals(self._rows)

    async def prune(self, before_ms: int) -> int:
        kept = [row for row in self._rows if row.at_ms >= before_ms]
        deleted = len(self._rows) - len(kept)
        self._rows.clear()
        self._rows.extend(kept)
        return deleted

    async def close(self) -> None:
        """Nothing to let go of."""
