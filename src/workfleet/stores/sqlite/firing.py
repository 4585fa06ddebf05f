"""One fire of a schedule in SQLite, within a step: the compare-and-set on its slot, and its job."""

from __future__ import annotations

import msgspec
from msgspec import Struct, structs

from workfleet.model.schedules import (
    COALESCING,
    NOTES_LIMIT,
    Fire,
    Fired,
    ScheduleRecord,
    SlotNote,
    notes_of,
    status_of,
)

from .adding import add_jobs
from .keeping import cancel_jobs
from .lane import Step

_STATE = """
SELECT next_due_ms, enabled AND NOT paused AND NOT orphaned, last_job_id, account, last_call, last_call_slot_ms,
  last_answer
FROM wf_schedule WHERE app = ? AND name = ?
"""
_FIRE = """
UPDATE wf_schedule SET next_due_ms = ?, last_slot_ms = ?, last_outcome = ?, missed_count = missed_count + ?,
  fired = fired + ?, skipped = skipped + ?, account = ?,
  last_fired_ms = coalesce(?, last_fired_ms), last_job_id = coalesce(?, last_job_id),
  last_call = ?, last_call_slot_ms = ?, last_answer = ? WHERE app = ? AND name = ?
"""
_UNFINISHED = "SELECT unique_key, started_ms FROM wf_job WHERE app = ? AND id = ? AND state < 5"
_BEGUN = """
SELECT id FROM wf_job INDEXED BY wf_job_claimed_key
WHERE app = ? AND unique_key = ? AND unique_key IS NOT NULL AND state < 5 AND key_until > 0 AND started_ms IS NOT NULL
"""


class _Account(Struct, omit_defaults=True):
    """`wf_schedule.account`: what few schedules have. The fields are `ScheduleRecord`'s."""

    coalesced: int = 0
    late: int = 0
    notes: tuple[SlotNote, ...] = ()


_NONE = _Account()
_answers = msgspec.json.Decoder(Fired)
_accounts = msgspec.json.Decoder(_Account)


def read_account(record: ScheduleRecord, stored: bytes | None) -> None:
    """Set the fields of a record that are kept together."""
    account = _account(stored)
    record.coalesced, record.late, record.notes = account.coalesced, account.late, account.notes


def _account(stored: bytes | None) -> _Account:
    try:
        return _NONE if stored is None else _accounts.decode(stored)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _NONE  # of a newer version; no schedule stands still because of it


def fire(step: Step, app: str, asked: Fire) -> Fired:
    """Apply a fire. The meaning is `Fire`'s."""
    row = step.row(_STATE, app, asked.schedule)
    if row is None:
        return Fired("lost")
    next_due_ms, live, last_job_id, stored, *last = row
    if asked.call is not None and last[:2] == [asked.call, asked.slot_ms]:
        return _answers.decode(last[2])
    if next_due_ms != asked.slot_ms or not live:
        return Fired("lost")
    answer = _run(step, app, asked, last_job_id)
    if answer.kind in ("busy", "lost"):
        return answer
    skipped = (1 if asked.job else asked.skipped) if answer.kind == "skipped" else 0
    fired = (step.now, asked.job.id) if answer.kind == "fired" and asked.job is not None else (None, None)
    status = status_of(asked, answer.kind)
    step.change(
        _FIRE, asked.next_due_ms, asked.ran_slot_ms, status, asked.missed, int(answer.kind == "fired"), skipped,
        _accounted(step, stored, asked, answer), *fired, asked.call, asked.slot_ms, msgspec.json.encode(answer),
        app, asked.schedule,
    )  # fmt: skip
    return answer


def _accounted(step: Step, stored: bytes | None, asked: Fire, answer: Fired) -> bytes | None:
    """The account after a fire; as it is stored where nothing in it changes."""
    before = _account(stored)
    after = structs.replace(
        before,
        coalesced=before.coalesced + (answer.kind == "coalesced"),
        late=before.late + (answer.kind == "fired" and asked.late),
        notes=(*before.notes, *notes_of(asked, answer, step.now))[-NOTES_LIMIT:],
    )
    return stored if after == before else msgspec.json.encode(after)


def _run(step: Step, app: str, asked: Fire, last_job_id: str | None) -> Fired:
    """Insert the fire's job unless something speaks against it."""
    job = asked.job
    if job is None:
        return Fired("skipped" if asked.skipped else "missed")
    if asked.overlap != "allow":
        row = None if last_job_id is None else step.row(_UNFINISHED, app, last_job_id)
        if row is not None and (asked.waits or asked.overlap == "skip"):
            return Fired("busy" if asked.waits else "skipped", last_job_id)
        if asked.overlap == "cancel_running" and not asked.waits:
            begun = {id_ for (id_,) in step.rows(_BEGUN, app, job.unique_key)}
            if row is not None and row[1] is not None:
                begun.add(str(last_job_id))
            cancel_jobs(step, app, sorted(begun))
            row = None if last_job_id is None else step.row(_UNFINISHED, app, last_job_id)
        if row is not None and row[0] != job.unique_key:
            return Fired("skipped", last_job_id)  # it ran by another policy, and no key keeps them apart
    (added,) = add_jobs(step, app, [job], call=None)
    return Fired("fired") if added.id == job.id else _refused(step, app, asked, added.id)


def _refused(step: Step, app: str, asked: Fire, holder: str) -> Fired:
    """The answer to a fire whose job another one keeps out."""
    if asked.waits:
        return Fired("busy", holder)
    row = step.row(_UNFINISHED, app, holder)
    waits = row is not None and row[1] is None
    return Fired("coalesced" if waits and asked.overlap in COALESCING else "skipped", holder)
