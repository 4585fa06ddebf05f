"""What operators do with jobs: run them again, now, or not at all."""

from __future__ import annotations

from collections.abc import Sequence

from workfleet.model.jobs import CANCELLED_UNRUN, CancelAnswer, Claim

from ..wakes import CANCELS, queue_topic
from .ending import blocked, end_unrun
from .keys_of_jobs import EXCLUSIVE, WINDOW, free_of_expired, holder_of
from .lane import Step

_FOUND = """
SELECT j.seq, q.name, j.state, j.unique_key, j.key_until
FROM wf_job j JOIN wf_queue q ON q.queue = j.queue WHERE j.app = ? AND j.id = ?
"""
_RETRY = """
UPDATE wf_job SET state = iif(?1, 2, priority > 0), parked = ?1, due_ms = ?2, started_ms = NULL, finished_ms = NULL,
  attempts_made = 0, crashes = 0, deferrals = 0, suspicions = 0, cancel_asked = 0 WHERE seq = ?3
"""
_NEVER_EXPIRES = """
UPDATE wf_body SET spec = CAST(json_remove(CAST(spec AS TEXT), '$.expires_ms') AS BLOB)
WHERE seq = ? AND iif(json_valid(CAST(spec AS TEXT)), json_extract(CAST(spec AS TEXT), '$.expires_ms') IS NOT NULL, 0)
"""
_HOLD_AGAIN = """
INSERT OR REPLACE INTO wf_hold (app, unique_key, id, expires_ms)
SELECT j.app, j.unique_key, j.id, ?2 + coalesce(json_extract(CAST(b.spec AS TEXT), '$.unique.window_ms'), 0)
FROM wf_job j JOIN wf_body b ON b.seq = j.seq WHERE j.seq = ?1 AND json_valid(CAST(b.spec AS TEXT))
"""
_PROMOTE = "UPDATE wf_job SET state = priority > 0, due_ms = ? WHERE seq = ? AND state = 2 AND parked = 0"


def retry_jobs(step: Step, app: str, ids: Sequence[str]) -> list[bool]:
    """Make failed jobs ready again. The meaning is `JobStore.retry`'s."""
    return [_retry(step, app, job_id) for job_id in ids]


def promote_jobs(step: Step, app: str, ids: Sequence[str]) -> list[bool]:
    """Make delayed jobs ready now. The meaning is `JobStore.promote`'s."""
    return [_promote(step, app, job_id) for job_id in ids]


def cancel_jobs(step: Step, app: str, ids: Sequence[str]) -> list[CancelAnswer]:
    """Cancel jobs. The meaning is `JobStore.cancel`'s."""
    return [_cancel(step, app, job_id) for job_id in ids]


def asked_cancels(step: Step, app: str, claims: Sequence[Claim]) -> list[bool]:
    """Which running jobs are to be cancelled."""
    asked = """
        SELECT j.cancel_asked FROM wf_job j JOIN wf_claim c ON c.claim = j.claim
        WHERE j.app = ? AND j.id = ? AND j.state = 3 AND c.token = ?
    """
    rows = [step.row(asked, app, claim.job_id, claim.token) for claim in claims]
    return [row is not None and bool(row[0]) for row in rows]


def _retry(step: Step, app: str, job_id: str) -> bool:
    row = step.row(_FOUND, app, job_id)
    if row is None or row[2] != 6:
        return False
    seq, queue, _, key, until = row
    if key is not None:
        free_of_expired(step, app, key)
        if holder_of(step, app, key) not in (None, job_id):
            return False
    parked = bool(key is not None and until & EXCLUSIVE and blocked(step, app, key))
    step.change(_RETRY, int(parked), step.now, seq)
    if key is not None and until & WINDOW:
        step.change(_HOLD_AGAIN, seq, step.now)
    step.change("UPDATE wf_run SET outcome = NULL, result = NULL, failure = NULL WHERE seq = ?", seq)
    step.change("DELETE FROM wf_report WHERE seq = ?", seq)
    step.change(_NEVER_EXPIRES, seq)
    step.topics.add(queue_topic(queue))
    return True


def _promote(step: Step, app: str, job_id: str) -> bool:
    row = step.row(_FOUND, app, job_id)
    if row is None or not step.change(_PROMOTE, step.now, row[0]):
        return False
    step.topics.add(queue_topic(row[1]))
    return True


def _cancel(step: Step, app: str, job_id: str) -> CancelAnswer:
    row = step.row(_FOUND, app, job_id)
    if row is None:
        return "missing"
    if row[2] > 4:
        return "finished"
    if row[2] == 3:
        step.change("UPDATE wf_job SET cancel_asked = 1 WHERE seq = ?", row[0])
        step.topics.add(CANCELS)
        return "asked"
    end_unrun(step, app, row[0], row[3], CANCELLED_UNRUN)
    return "cancelled"
