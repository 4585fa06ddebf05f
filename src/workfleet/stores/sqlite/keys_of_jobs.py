"""Unique keys: who holds one, for how long, and what a newcomer with the same key does to the holder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from workfleet.model.jobs import EXPIRED, JobRecord, UniqueRule

from .ending import end_unrun
from .lane import Row, Step
from .records import spec_again

WINDOW, EXCLUSIVE = 2, 4
"""Bits of `wf_job.key_until`."""

_HOLDER = """
SELECT id FROM wf_job INDEXED BY wf_job_unique WHERE app = ? AND unique_key = ? AND unique_key IS NOT NULL
  AND state < 5 AND (key_until & 3 = 0 OR (key_until & 3 = 1 AND started_ms IS NULL))
"""
_EXPIRED = """
SELECT j.seq, j.unique_key FROM json_each(?2) k
  CROSS JOIN wf_job j INDEXED BY wf_job_unique ON j.app = ?1 AND j.unique_key = k.value
  CROSS JOIN wf_body b ON b.seq = j.seq
WHERE j.unique_key IS NOT NULL AND j.state < 5
  AND (j.key_until & 3 = 0 OR (j.key_until & 3 = 1 AND j.started_ms IS NULL)) AND j.state != 3
  AND iif(json_valid(CAST(b.spec AS TEXT)), json_extract(CAST(b.spec AS TEXT), '$.expires_ms') <= ?3
    AND json_extract(CAST(b.spec AS TEXT), '$.schedule') IS NULL, 0)
"""
_HOLD = """
INSERT INTO wf_hold (app, unique_key, id, expires_ms) VALUES (?, ?, ?, ?)
ON CONFLICT (app, unique_key) DO UPDATE SET id = excluded.id, expires_ms = excluded.expires_ms
"""


@dataclass(frozen=True)
class Newcomer:
    """A job whose key is held, the call that brings it, and when it would be due by the store's clock."""

    job: JobRecord
    call: str | None
    due_ms: int


def key_until(rule: UniqueRule) -> int:
    """`wf_job.key_until` of a rule."""
    held = 2 if rule.window_ms else int(rule.until == "started")
    return held + EXCLUSIVE if rule.exclusive else held


def holder_of(step: Step, app: str, key: str) -> str | None:
    """The id of the job that holds a key now; the job may be gone."""
    held = "SELECT id FROM wf_hold WHERE app = ? AND unique_key = ? AND expires_ms > ?"
    row = step.row(held, app, key, step.now) or step.row(_HOLDER, app, key)
    return None if row is None else row[0]


def expired_holders(step: Step, app: str, keys: Sequence[str]) -> list[Row]:
    """Holders of these unique keys that will never start: the row's number, and the key. The rule is `UniqueRule`'s."""
    return step.rows(_EXPIRED, app, msgspec.json.encode(keys).decode(), step.now)


def free_of_expired(step: Step, app: str, key: str) -> None:
    """A holder of a unique key that will never start fails."""
    for seq, _ in expired_holders(step, app, [key]):
        end_unrun(step, app, seq, key, EXPIRED)


def hold_key(step: Step, app: str, job: JobRecord) -> None:
    """The job's window begins."""
    step.change(_HOLD, app, job.unique_key, job.id, step.now + job.unique.window_ms)


def replace_holder(step: Step, app: str, holder: str, new: Newcomer) -> bool:
    """Give a holder that was never claimed what a newcomer says. False when it was, or is gone.

    After a window's holder is gone, its id may be that of another job, which does not have the key."""
    found = """
        SELECT j.seq, b.spec FROM wf_job j JOIN wf_body b ON b.seq = j.seq
        WHERE j.app = ? AND j.id = ? AND j.unique_key = ? AND j.state < 3 AND j.started_ms IS NULL
    """
    row = step.row(found, app, holder, new.job.unique_key)
    if row is None:
        return False
    (seq, spec), job, anew = row, new.job, new.job.unique.on_conflict == "debounce"
    body = "UPDATE wf_body SET name = ?, payload = ?, spec = ? WHERE seq = ?"
    said = spec_again(spec, job, now_ms=step.now, delay_ms=job.delay_ms if anew else None)
    step.change(body, job.name, job.payload, said, seq)
    if anew:
        delay = "UPDATE wf_job SET due_ms = ?1, state = iif(?1 > ?2 OR parked, 2, priority > 0) WHERE seq = ?3"
        step.change(delay, new.due_ms, step.now, seq)
    _note_replaced(step, app, seq, new)
    return True


def _note_replaced(step: Step, app: str, seq: int, new: Newcomer) -> None:
    """Only the last call can be repeated: what the ones before it said is overwritten."""
    step.change("DELETE FROM wf_replaced WHERE seq = ? AND (call IS NULL OR call IS NOT ?)", seq, new.call)
    note = "INSERT OR REPLACE INTO wf_replaced (app, id, seq, call) VALUES (?, ?, ?, ?)"
    step.change(note, app, new.job.id, seq, new.call)
