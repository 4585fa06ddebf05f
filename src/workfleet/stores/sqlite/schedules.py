"""Schedules and their fires, in SQLite: the definition is JSON, what changes with every fire are columns."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import structs

from workfleet.model.jobs import JobRecord
from workfleet.model.schedules import Fire, Fired, ScheduleRecord
from workfleet.model.timing import Manual

from ..wakes import SCHEDULES
from .adding import add_jobs
from .lane import Row, Step
from .lanes import Lanes

_records = msgspec.json.Decoder(ScheduleRecord)
_answers = msgspec.json.Decoder(Fired)

_ALL = """
SELECT name, fingerprint, definition, enabled, from_code, orphaned, paused, next_due_ms, last_slot_ms, last_fired_ms,
  last_job_id, last_outcome, fired, skipped, missed_count FROM wf_schedule WHERE app = ? ORDER BY name
"""
_SET = """
INSERT INTO wf_schedule (app, name, fingerprint, definition, enabled, from_code, next_due_ms)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (app, name) DO UPDATE SET fingerprint = excluded.fingerprint, definition = excluded.definition,
  enabled = excluded.enabled, from_code = excluded.from_code, next_due_ms = excluded.next_due_ms, orphaned = 0
"""
_FIRE = """
UPDATE wf_schedule SET next_due_ms = ?, last_slot_ms = ?, last_outcome = ?, missed_count = missed_count + ?,
  fired = fired + ?, skipped = skipped + ?,
  last_fired_ms = coalesce(?, last_fired_ms), last_job_id = coalesce(?, last_job_id),
  last_call = ?, last_call_slot_ms = ?, last_answer = ? WHERE app = ? AND name = ?
"""


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

    async def merge(self, defined: Sequence[ScheduleRecord]) -> list[ScheduleRecord]:
        return await self._lanes.write(lambda step: self._merge(step, defined))

    async def put(self, record: ScheduleRecord, *, replace: bool) -> bool:
        def operation(step: Step) -> bool:
            exists = step.row("SELECT 1 FROM wf_schedule WHERE app = ? AND name = ?", self._app, record.name)
            if exists and not replace:
                return False
            self._set(step, record)
            return True

        return await self._lanes.write(operation)

    async def remove(self, name: str) -> bool:
        return await self._change("DELETE FROM wf_schedule WHERE app = ? AND name = ?", self._app, name)

    async def set_paused(self, name: str, *, paused: bool) -> bool:
        pause = "UPDATE wf_schedule SET paused = ? WHERE app = ? AND name = ?"
        return await self._change(pause, int(paused), self._app, name)

    async def all(self) -> list[ScheduleRecord]:
        return await self._lanes.read(lambda step: [_record(row) for row in step.rows(_ALL, self._app)])

    async def fire(self, fires: Sequence[Fire]) -> list[Fired]:
        return await self._lanes.write(lambda step: [self._fire(step, fire) for fire in fires])

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

    def _merge(self, step: Step, defined: Sequence[ScheduleRecord]) -> list[ScheduleRecord]:
        stored = {record.name: record for record in map(_record, step.rows(_ALL, self._app))}
        for record in defined:
            there = stored.pop(record.name, None)
            same = there is not None and there.from_code and there.fingerprint == record.fingerprint
            if not same or (there is not None and _UNREADABLE in there.facts):
                self._set(step, record)
            elif there is not None and there.orphaned:
                self._orphan(step, record.name, orphaned=False)
        for there in stored.values():
            if there.from_code and not there.orphaned:
                self._orphan(step, there.name, orphaned=True)
        return [_record(row) for row in step.rows(_ALL, self._app)]

    def _set(self, step: Step, record: ScheduleRecord) -> None:
        """Store a definition. What the fleet did under that name so far stays."""
        plain = structs.replace(
            record, paused=False, orphaned=False, next_due_ms=None, last_slot_ms=None, last_fired_ms=None,
            last_job_id=None, last_outcome=None, fired=0, skipped=0, missed_count=0,
        )  # fmt: skip
        flags = (int(record.enabled), int(record.from_code))
        definition = msgspec.json.encode(plain)
        step.change(_SET, self._app, record.name, record.fingerprint, definition, *flags, record.next_due_ms)
        self._changed(step)

    def _orphan(self, step: Step, name: str, *, orphaned: bool) -> None:
        orphan = "UPDATE wf_schedule SET orphaned = ? WHERE app = ? AND name = ?"
        step.change(orphan, int(orphaned), self._app, name)
        self._changed(step)

    def _fire(self, step: Step, fire: Fire) -> Fired:
        state = """
            SELECT next_due_ms, enabled AND NOT paused AND NOT orphaned, last_job_id,
              last_call, last_call_slot_ms, last_answer
            FROM wf_schedule WHERE app = ? AND name = ?
        """
        row = step.row(state, self._app, fire.schedule)
        if row is None:
            return Fired("lost")
        next_due_ms, live, last_job_id, *last = row
        if fire.call is not None and last[:2] == [fire.call, fire.slot_ms]:
            return _answers.decode(last[2])
        if next_due_ms != fire.slot_ms or not live:
            return Fired("lost")
        answer = self._run(step, fire, last_job_id)
        fired = (step.now, fire.job.id) if answer.kind == "fired" and fire.job is not None else (None, None)
        step.change(
            _FIRE, fire.next_due_ms, fire.ran_slot_ms, answer.kind, fire.missed, int(answer.kind == "fired"),
            int(answer.kind == "skipped"), *fired, fire.call, fire.slot_ms, msgspec.json.encode(answer),
            self._app, fire.schedule,
        )  # fmt: skip
        return answer

    def _run(self, step: Step, fire: Fire, last_job_id: str | None) -> Fired:
        """Insert the fire's job unless something speaks against it."""
        if fire.job is None:
            return Fired("skipped" if fire.skipped else "missed")
        if fire.unless_running and last_job_id is not None:
            running = "SELECT 1 FROM wf_job WHERE app = ? AND id = ? AND state < 5"
            if step.row(running, self._app, last_job_id):
                return Fired("skipped", last_job_id)
        (added,) = add_jobs(step, self._app, [fire.job], call=None)
        return Fired("fired") if added.id == fire.job.id else Fired("skipped", added.id)


_UNREADABLE = "unreadable"


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
    record.fired, record.skipped, record.missed_count = state[5:]
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
