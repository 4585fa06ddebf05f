"""What a job waits for, in SQLite. Nothing here changes anything."""

from __future__ import annotations

from workfleet.ports.jobs import Place

from .lane import Step
from .limiting import limits_of, rate_allows_ms

_JOB = """
SELECT j.queue, j.grp, j.lifo, j.priority, j.due_ms, j.seq, j.state, j.parked, j.unique_key, q.limits
FROM wf_job j JOIN wf_queue q ON q.queue = j.queue WHERE j.app = ? AND j.id = ?
"""
_READY = "SELECT count(*) FROM wf_job INDEXED BY wf_job_ready WHERE queue = ?1 AND grp = ?2 AND state < 2 AND"
_DUE = """
SELECT count(*) FROM wf_job INDEXED BY wf_job_due
WHERE queue = ?1 AND grp = ?2 AND state = 2 AND parked = 0 AND due_ms <= ?3 AND
"""
"""What is due becomes ready at the next claim, which is not made here."""
_LATER_IN = "lifo = 1 AND priority = 0 AND (due_ms, seq) > (?5, ?6)"
_LAST_IN = "lifo = 1 AND priority = 0"
_EARLIER_IN = "lifo = 0 AND (priority, due_ms, seq) < (?4, ?5, ?6)"
_BEFORE_LAST_IN = f"SELECT ({_READY} {_LATER_IN}) + ({_DUE} {_LATER_IN})"
_BEFORE_FIRST_IN = f"""
SELECT ({_READY} {_LAST_IN}) + ({_READY} {_EARLIER_IN}) + ({_DUE} {_LAST_IN}) + ({_DUE} {_EARLIER_IN})
"""
_RIVAL = """
SELECT id FROM wf_job INDEXED BY wf_job_claimed_key
WHERE app = ? AND unique_key = ? AND unique_key IS NOT NULL AND state < 5 AND key_until > 0 AND started_ms IS NOT NULL
  AND seq <> ?
"""


def place_of(step: Step, app: str, job_id: str) -> Place | None:
    """The meaning is `JobStore.place`'s."""
    row = step.row(_JOB, app, job_id)
    if row is None:
        return None
    queue, group, lifo, priority, due_ms, seq, state, parked, key, stored = row
    limits, is_due = limits_of(stored), state == 2 and not parked and due_ms <= step.now
    starts = [rate_allows_ms(step, queue, "", limits.rate)]
    if group:
        starts.append(rate_allows_ms(step, queue, group, limits.of_group(group).rate))
    rival = step.row(_RIVAL, app, key, seq) if parked else None
    return Place(
        ahead=_ahead(step, queue, group, (lifo, priority, due_ms, seq)) if state < 2 or is_due else 0,
        rival=None if rival is None else rival[0],
        starts_ms=None if None in starts else max(at for at in starts if at is not None),
    )


def _ahead(step: Step, queue: int, group: str, at: tuple[int, int, int, int]) -> int:
    lifo, priority, due_ms, seq = at
    query = _BEFORE_LAST_IN if lifo else _BEFORE_FIRST_IN
    row = step.row(query, queue, group, step.now, priority, due_ms, seq)
    assert row is not None
    count: int = row[0]
    return count
