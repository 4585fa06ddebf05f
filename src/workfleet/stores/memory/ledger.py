"""The run ledger, in memory: a sorted list of rows for each schedule."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence

from workfleet.model.ledger import LedgerKeep, LedgerRow
from workfleet.ports.clock import Clock

from ..texts import clean_row


class MemoryLedger:
    """A `LedgerStore`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rows: dict[str, list[LedgerRow]] = {}

    async def record(self, rows: Sequence[LedgerRow], keep: LedgerKeep) -> None:
        for row in map(clean_row, rows):
            there = self._rows.setdefault(row.schedule, [])
            if row not in there:
                insort(there, row, key=_place)
        oldest_ms = self._clock.now_ms() - keep.age_ms
        for schedule in {row.schedule for row in rows}:
            self._keep(schedule, [row for row in self._rows[schedule] if row.at_ms >= oldest_ms][-keep.count :])

    async def history(self, schedule: str, limit: int = 100) -> list[LedgerRow]:
        return self._rows.get(schedule, [])[::-1][:limit]

    async def prune(self, age_ms: int, limit: int = 1_000) -> int:
        oldest_ms = self._clock.now_ms() - age_ms
        old = [row for rows in self._rows.values() for row in rows if row.at_ms < oldest_ms]
        old = sorted(old, key=_place)[:limit]
        for row in old:
            self._keep(row.schedule, [there for there in self._rows[row.schedule] if there is not row])
        return len(old)

    def _keep(self, schedule: str, rows: list[LedgerRow]) -> None:
        if rows:
            self._rows[schedule] = rows
        else:
            del self._rows[schedule]


def _place(row: LedgerRow) -> tuple[int, str]:
    return row.at_ms, row.id
