"""What a job waits for, in SQLite. Nothing here changes anything."""

from __future__ import annotations

from workfleet.ports.jobs import Place

from .lane import Step
from .limiting import limits_of, rate_allows_ms

_JOB = """
SELECT j.queue, j.grp, j.lifo, j.priority, j.due_ms, j.seq, j.state, j.parked, j.unique_key, q.limits
FROM wf_job j JOIN wf_queue q ON q.queue = j.queue WHERE j.app = ? AND j.id = ?
"""
_READY = "SELECT count(*) FROM wf_job INDEXED BY wf_job_ready WHERE queue = ? AND grp = ? AND state < 2 AND"
_LATER_IN = f"{_READY} lifo = 1 AND priority = 0 AND (due_ms, seq) > (?, ?)"
_LAST_IN = f"{_READY} lifo = 1 AND priority = 0"
_EARLIER_IN = f"{_READY} lifo = 0 AND (priority, due_ms, seq) < (?, ?, ?)"
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
    limits = limits_of(stored)
    starts = [rate_allows_ms(step, queue, "", limits.rate)]
    if group:
        starts.append(rate_allows_ms(step, queue, group, limits.of_group(group).rate))
    rival = step.row(_RIVAL, app, key, seq) if parked else None
    return Place(
        ahead=_ahead(step, queue, group, (lifo, priority, due_ms, seq)) if state < 2 else 0,
        rival=None if rival is None else rival[0],
        starts_ms=None if None in starts else max(at for at in starts if at is not None),
    )


def _ahead(step: Step, queue: int, group: str, at: tuple[int, int, int, int]) -> int:
    lifo, priority, due_ms, seq = at
    if lifo:
        return _count(step, _LATER_IN, queue, group, due_ms, seq)
    return _count(step, _LAST_IN, queue, group) + _count(step, _EARLIER_IN, queue, group, priority, due_ms, seq)


def _count(step: Step, query: str, *facts: int | str) -> int:
    row = step.row(query, *facts)
    assert row is not None
    count: int = row[0]
    return count
