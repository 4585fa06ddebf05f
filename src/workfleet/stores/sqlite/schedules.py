"""Schedules and their fires, in SQLite: the definition is JSON, what changes with every fire are columns."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from functools import partial

import msgspec

from workfleet.model.handout import DueRequest, DueSchedules, Hold, held_until_ms
from workfleet.model.jobs import JobRecord
from workfleet.model.schedules import Fire, Fired, ScheduleRecord
from workfleet.model.timing import Manual

from ..batches import batches
from ..definitions import definition_of
from ..wakes import SCHEDULES
from .firing import fire, read_account
from .lane import Row, Step
from .lanes import Lanes

_records = msgspec.json.Decoder(ScheduleRecord)

_COLUMNS = """
SELECT name, fingerprint, definition, enabled, from_code, orphaned, paused, next_due_ms, last_slot_ms, last_fired_ms,
  last_job_id, last_outcome, fired, skipped, missed_count, account,
  iif(held_slot_ms = next_due_ms, held_until_ms, NULL)
"""
_PAGE = f"{_COLUMNS} FROM wf_schedule WHERE app = ? AND name > ? ORDER BY name LIMIT ?"
_OF_NAME = f"{_COLUMNS} FROM wf_schedule WHERE app = ? AND name = ?"
# CROSS JOIN: names first, or it would go through all schedules.
_STORED = """
SELECT name, fingerprint, from_code, definition, orphaned
FROM (SELECT value FROM json_each(?)) CROSS JOIN wf_schedule ON name = value WHERE app = ?
"""
_DUE = f"{_COLUMNS} FROM wf_schedule WHERE app = ? AND fires_ms <= ? ORDER BY fires_ms, name LIMIT ?"
_NEXT_DUE = """
SELECT fires_ms FROM wf_schedule WHERE app = ? AND fires_ms IS NOT NULL ORDER BY fires_ms, name LIMIT 1 OFFSET ?
"""
_HOLD = """
UPDATE wf_schedule SET held_slot_ms = next_due_ms, held_until_ms = ? WHERE app = ? AND name = ? AND next_due_ms = ?
"""
_PAUSE = """
UPDATE wf_schedule SET paused = ?1, held_slot_ms = iif(?1, held_slot_ms, NULL) WHERE app = ?2 AND name = ?3
"""
_SET = """
INSERT INTO wf_schedule
  (app, name, fingerprint, definition, enabled, from_code, next_due_ms, held_slot_ms, held_until_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (app, name) DO UPDATE SET fingerprint = excluded.fingerprint, definition = excluded.definition,
  enabled = excluded.enabled, from_code = excluded.from_code, next_due_ms = excluded.next_due_ms, orphaned = 0,
  held_slot_ms = excluded.held_slot_ms, held_until_ms = excluded.held_until_ms
"""
_IN_CODE = """
SELECT name FROM wf_schedule WHERE app = ? AND name > ? AND from_code = 1 AND orphaned = 0 ORDER BY name LIMIT ?
"""
_ORPHAN = "UPDATE wf_schedule SET orphaned = ? WHERE app = ? AND name = ?"
_BATCH = 2_000
"""So many definitions are written in one step: other steps wait for some milliseconds."""
_PAGE_OF_NAMES = 5_000
_RAISE = """
INSERT INTO wf_meta VALUES (?, 1) ON CONFLICT (key) DO UPDATE SET value = value + 1
"""


def schedules_revision(step: Step, app: str) -> int:
    """A number that every change of an app's definitions raises; 0 before the first."""
    row = step.row("SELECT value FROM wf_meta WHERE key = ?", _revision_key(app))
    return 0 if row is None else int(row[0])


class SqliteSchedules:
    """A `ScheduleStore`."""

    def __init__(self, app: str, lanes: Lanes) -> None:
        self._app, self._lanes = app, lanes

    async def merge(self, defined: Iterable[ScheduleRecord]) -> list[str]:
        names = set[str]()
        # As rows from the beginning: many records at once would keep the garbage collector busy.
        for rows in batches(map(self._row, defined), _BATCH):
            names.update(row[1] for row in rows)
            await self._lanes.write(partial(self._merge, rows=rows))
        async for page in self._names_in_code():
            for gone in batches((name for name in page if name not in names), _BATCH):
                await self._lanes.write(partial(self._orphan, names=gone))
        orphaned = "SELECT name FROM wf_schedule WHERE app = ? AND orphaned = 1 ORDER BY name"
        return await self._lanes.read(lambda step: [name for (name,) in step.rows(orphaned, self._app)])

    async def put(self, record: ScheduleRecord, *, replace: bool) -> bool:
        def operation(step: Step) -> bool:
            exists = step.row("SELECT 1 FROM wf_schedule WHERE app = ? AND name = ?", self._app, record.name)
            if exists and not replace:
                return False
            self._set(step, [self._row(record)])
            return True

        return await self._lanes.write(operation)

    async def remove(self, name: str) -> bool:
        return await self._change("DELETE FROM wf_schedule WHERE app = ? AND name = ?", self._app, name)

    async def set_paused(self, name: str, *, paused: bool) -> bool:
        return await self._change(_PAUSE, int(paused), self._app, name)

    async def all(self) -> list[ScheduleRecord]:
        return await self._lanes.read(lambda step: [_record(row) for row in step.rows(_PAGE, self._app, "", -1)])

    async def get(self, names: Sequence[str]) -> list[ScheduleRecord | None]:
        def operation(step: Step) -> list[ScheduleRecord | None]:
            rows = (step.row(_OF_NAME, self._app, name) for name in names)
            return [None if row is None else _record(row) for row in rows]

        return await self._lanes.read(operation)

    async def page(self, after: str, limit: int) -> tuple[list[ScheduleRecord], str]:
        rows = await self._lanes.read(lambda step: step.rows(_PAGE, self._app, after, limit))
        return [_record(row) for row in rows], rows[-1][0] if len(rows) == limit else ""

    async def claim_due(self, request: DueRequest) -> DueSchedules:
        def operation(step: Step) -> DueSchedules:
            until = step.now + request.ahead_ms
            records = [_record(row) for row in step.rows(_DUE, self._app, until, request.limit)]
            for record in records:
                record.held_until_ms = until + request.hold_ms
            first = step.row(_NEXT_DUE, self._app, len(records))
            held = [(record.held_until_ms, self._app, record.name, record.next_due_ms) for record in records]
            step.change_many(_HOLD, held)
            return DueSchedules(step.now, records, None if first is None else first[0])

        return await self._lanes.write(operation)

    async def hold(self, holds: Sequence[Hold]) -> None:
        rows = [(hold.until_ms, self._app, hold.schedule, hold.slot_ms) for hold in holds]
        await self._lanes.write(lambda step: step.change_many(_HOLD, rows))

    async def fire(self, fires: Sequence[Fire]) -> list[Fired]:
        def operation(step: Step) -> list[Fired]:
            answers = [fire(step, self._app, asked) for asked in fires]
            later = [
                (asked.held_until_ms, self._app, asked.schedule, asked.next_due_ms)
                for asked, answer in zip(fires, answers, strict=True)
                if answer.kind not in ("lost", "busy") and asked.held_until_ms is not None
            ]
            step.change_many(_HOLD, later)
            return answers

        return await self._lanes.write(operation)

    async def wait(self, timeout_ms: int) -> bool:
        return await self._lanes.wait([SCHEDULES], timeout_ms)

    async def _change(self, sql: str, *values: object) -> bool:
        def operation(step: Step) -> bool:
            changed = bool(step.change(sql, *values))
            self._changed(step)
            return changed

        return await self._lanes.write(operation)

    def _changed(self, step: Step) -> None:
        step.change(_RAISE, _revision_key(self._app))
        step.topics.add(SCHEDULES)

    async def _names_in_code(self) -> AsyncIterator[list[str]]:
        after = ""
        while True:
            names = await self._lanes.read(partial(self._page_in_code, after=after))
            yield names
            if len(names) < _PAGE_OF_NAMES:
                return
            after = names[-1]

    def _page_in_code(self, step: Step, after: str) -> list[str]:
        return [name for (name,) in step.rows(_IN_CODE, self._app, after, _PAGE_OF_NAMES)]

    def _merge(self, step: Step, rows: Sequence[Row]) -> None:
        names = msgspec.json.encode([row[1] for row in rows]).decode()
        stored = {name: there for name, *there in step.rows(_STORED, names, self._app)}
        changed, back = [], []
        for row in rows:
            _, name, fingerprint, definition, *_ = row
            there = stored.get(name)
            if there is None or there[:2] != [fingerprint, 1] or not (there[2] == definition or _readable(there[2])):
                changed.append(row)
            elif there[3]:
                back.append((0, self._app, name))
        if changed:
            self._set(step, changed)
        if back:
            step.change_many(_ORPHAN, back)
            self._changed(step)

    def _set(self, step: Step, rows: Sequence[Row]) -> None:
        """Store definitions. What the fleet did under their names so far stays."""
        step.change_many(_SET, rows)
        self._changed(step)

    def _row(self, record: ScheduleRecord) -> Row:
        flags = (int(record.enabled), int(record.from_code))
        slot_ms, until_ms = record.next_due_ms, record.held_until_ms
        held = (None, None) if until_ms is None else (slot_ms, until_ms)
        return (self._app, record.name, record.fingerprint, definition_of(record), *flags, slot_ms, *held)

    def _orphan(self, step: Step, names: Sequence[str]) -> None:
        step.change_many(_ORPHAN, [(1, self._app, name) for name in names])
        self._changed(step)


_UNREADABLE = "unreadable"


def _readable(definition: bytes) -> bool:
    try:
        _records.decode(definition)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    return True


def _revision_key(app: str) -> str:
    return f"schedules of {app}"


def _record(row: Row) -> ScheduleRecord:
    name, fingerprint, definition, enabled, from_code, orphaned, paused, *state = row
    try:
        record = _records.decode(definition)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        record = _unreadable(name, fingerprint, str(error))
        orphaned = True
    record.enabled, record.from_code = bool(enabled), bool(from_code)
    record.orphaned, record.paused = bool(orphaned), bool(paused)
    record.next_due_ms, record.last_slot_ms, record.last_fired_ms, record.last_job_id, record.last_outcome = state[:5]
    record.fired, record.skipped, record.missed_count, account, until_ms = state[5:]
    read_account(record, account)
    record.held_until_ms = held_until_ms(record.next_due_ms, until_ms)
    return record


def _unreadable(name: str, fingerprint: str, reason: str) -> ScheduleRecord:
    """A schedule that this version cannot read, of a newer one perhaps: kept, shown, never fired."""
    return ScheduleRecord(
        name=name,
        timing=Manual(),
        fingerprint=fingerprint,
        job=JobRecord(id="", queue="", name=""),
        description=f"This version cannot read the stored schedule: {reason}",
        facts={_UNREADABLE: reason},
    )
