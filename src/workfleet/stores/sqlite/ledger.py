"""The run ledger, in SQLite: a table of its own, in the order in which it is read."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from workfleet.model.ledger import LedgerKeep, LedgerRow

from ..texts import clean_row
from .lane import Row, Step
from .lanes import Lanes

_FIELDS = "id, at_ms, schedule, outcome, slot_ms, job_id, attempt, started_ms, worker, error, slots"
_ADD = f"INSERT OR IGNORE INTO wf_ledger (app, {_FIELDS})"
_SHARE = 16
"""Of the rows of a schedule, the part that there may be too many for a while."""
_OLD = "DELETE FROM wf_ledger WHERE app = ? AND schedule = ? AND at_ms < ?"
_BEYOND = """
DELETE FROM wf_ledger WHERE app = ?1 AND schedule = ?2 AND (at_ms, id) <= (
  SELECT at_ms, id FROM wf_ledger WHERE app = ?1 AND schedule = ?2 ORDER BY at_ms DESC, id DESC LIMIT 1 OFFSET ?3)
"""
_HISTORY = f"SELECT {_FIELDS} FROM wf_ledger WHERE app = ? AND schedule = ? ORDER BY at_ms DESC, id DESC LIMIT ?"
_PRUNE = """
DELETE FROM wf_ledger WHERE (app, schedule, at_ms, id) IN (
  SELECT app, schedule, at_ms, id FROM wf_ledger WHERE app = ? AND at_ms < ? ORDER BY at_ms LIMIT ?)
"""


class SqliteLedger:
    """A `LedgerStore`."""

    def __init__(self, app: str, lanes: Lanes) -> None:
        self._app, self._lanes = app, lanes

    async def record(self, rows: Sequence[LedgerRow], keep: LedgerKeep) -> None:
        values = [(self._app, *_values(clean_row(row))) for row in rows]
        schedules = Counter(row.schedule for row in rows)
        # To find the last row that is kept, all of them are gone through: for many, only every so many rows.
        counted = [name for name, new in schedules.items() if random.random() * keep.count < new * _SHARE]

        def operation(step: Step) -> None:
            step.insert(_ADD, values)
            for schedule in schedules:
                step.change(_OLD, self._app, schedule, step.now - keep.age_ms)
            for schedule in counted:
                step.change(_BEYOND, self._app, schedule, keep.count)

        await self._lanes.write(operation)

    async def history(self, schedule: str, limit: int = 100) -> list[LedgerRow]:
        return await self._lanes.read(
            lambda step: [_row(*row) for row in step.rows(_HISTORY, self._app, schedule, limit)]
        )

    async def prune(self, age_ms: int, limit: int = 1_000) -> int:
        return await self._lanes.write(lambda step: step.change(_PRUNE, self._app, step.now - age_ms, limit))


def _values(row: LedgerRow) -> Row:
    ran = (row.job_id, row.attempt, row.started_ms, row.worker)
    return (row.id, row.at_ms, row.schedule, row.outcome, row.slot_ms, *ran, row.error, row.count)


def _row(*values: Any) -> LedgerRow:
    row_id, at_ms, schedule, outcome, slot_ms, job_id, attempt, started_ms, worker, error, slots = values
    return LedgerRow(
        id=row_id,
        at_ms=at_ms,
        schedule=schedule,
        outcome=outcome,
        slot_ms=slot_ms,
        job_id=job_id,
        attempt=attempt,
        started_ms=started_ms,
        worker=worker,
        error=error,
        count=slots,
    )
