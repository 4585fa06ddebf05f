"""Where metrics are kept: the seam that the memory, SQLite and PostgreSQL stores fill."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from workfleet.errors import StoreUnavailable
from workfleet.events import MetricsUnavailable

from .model import MetricQuery, MetricRow, MetricSeries, StoredSample, StoredSeries


class MetricStore(Protocol):
    """One app's metrics. Any call may raise `StoreUnavailable`; then nothing of it has happened."""

    async def write(self, rows: Sequence[MetricRow]) -> None:
        """Add rows, all in one step. Several processes may write rows of one series."""
        ...

    async def query(self, query: MetricQuery) -> list[MetricSeries]:
        """Series by their labels, aggregated as `aggregate` says. Raises `UsageError` for a senseless range."""
        ...

    async def series(self) -> list[StoredSeries]:
        """Every series that has rows, by name, labels and kind. Cheap, however many rows there are."""
        ...

    async def totals(self) -> list[StoredSample]:
        """What every series comes to, as `totals` says, in the same order. Reads every row of what is not a gauge."""
        ...

    async def prune(self, before_ms: int) -> int:
        """Delete rows older than that. Returns how many."""
        ...

    async def close(self) -> None:
        """Let go of everything. May be called twice."""
        ...


def trouble(error: StoreUnavailable) -> MetricsUnavailable:
    """What is told of a metric store that cannot be used."""
    return MetricsUnavailable(store=error.store, reason=". ".join(filter(None, (error.reason, error.advice))))
