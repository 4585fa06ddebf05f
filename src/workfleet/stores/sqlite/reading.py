"""Questions about jobs. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from workfleet.model.jobs import FINISHED, JobCounts, JobRecord, JobState
from workfleet.ports.stores import JobQuery

from .lane import Step
from .records import RECORD, record_of, records_of
from .schema import STATE_NUMBERS, STATES

_READY = """
SELECT queue, count(*), sum(priority > 0) FROM wf_job INDEXED BY wf_job_ready
WHERE state < 2 AND housekeeping <= ? GROUP BY queue
"""
_DELAYED = """
SELECT queue, count(*), count(started_ms) FROM wf_job INDEXED BY wf_job_due
WHERE state = 2 AND housekeeping <= ? GROUP BY queue
"""
_ACTIVE = """
SELECT queue, 3, count(*) FROM wf_job INDEXED BY wf_job_active WHERE state = 3 AND housekeeping <= ? GROUP BY queue
"""
_PARENTS = """
SELECT queue, 4, count(*) FROM wf_job INDEXED BY wf_job_parent WHERE state = 4 AND housekeeping <= ? GROUP BY queue
"""
_FINISHED = """
SELECT queue, state, count(*) FROM wf_job INDEXED BY wf_job_finished
WHERE state > 4 AND housekeeping <= ? GROUP BY queue, state
"""
_OLDEST_LIFO = """
SELECT min(due_ms) FROM wf_job INDEXED BY wf_job_ready
WHERE queue = ?1 AND lifo = 1 AND priority = 0 AND housekeeping <= ?2 AND state < 2
"""
_OLDEST = """
WITH RECURSIVE level (priority) AS (
  SELECT (SELECT min(priority) FROM wf_job INDEXED BY wf_job_ready WHERE queue = ?1 AND lifo = 0 AND state < 2)
  UNION ALL
  SELECT (SELECT min(j.priority) FROM wf_job j INDEXED BY wf_job_ready
          WHERE j.queue = ?1 AND j.lifo = 0 AND j.priority > level.priority AND j.state < 2)
  FROM level WHERE level.priority IS NOT NULL
)
SELECT min((
  SELECT min(j.due_ms) FROM wf_job j INDEXED BY wf_job_ready
  WHERE j.queue = ?1 AND j.lifo = 0 AND j.priority = level.priority AND j.housekeeping <= ?2 AND j.state < 2
)) FROM level
"""
"""The first of each priority is the oldest of it: as many look-ups as there are priorities, however many jobs."""


def get_jobs(step: Step, app: str, ids: Sequence[str]) -> list[JobRecord | None]:
    """Jobs by id."""
    query = f"{RECORD} WHERE j.app = ? AND j.id = ?"
    rows = [step.row(query, app, job_id) for job_id in ids]
    return [None if row is None else record_of(row) for row in rows]


def find_jobs(step: Step, app: str, query: JobQuery) -> list[JobRecord]:
    """Jobs that match, newest first: their narrow rows are sorted, the rest is read for the answer only."""
    index, where, values = "wf_job_created", ["j.app = ?"], list[object]([app])
    if query.queue is not None:
        where.append("j.queue IN (SELECT queue FROM wf_queue WHERE app = ? AND name = ?)")
        values += [app, query.queue]
    if query.states is not None:
        where.append(f"j.state IN ({', '.join(str(STATE_NUMBERS[state]) for state in query.states)})")
        # Few of many: found in an index of their own, not by going through all.
        if query.states and set(query.states) <= set(FINISHED):
            index = "wf_job_finished"
            where.append("j.state > 4 AND j.queue IN (SELECT queue FROM wf_queue WHERE app = ?)")
            values.append(app)
        elif set(query.states) == {JobState.ACTIVE}:
            index = "wf_job_active"
            where.append("j.state = 3")
    if not query.housekeeping:
        where.append("j.housekeeping = 0")
    if query.name is not None:
        where.append("(SELECT name FROM wf_body b WHERE b.seq = j.seq) = ?")
        values.append(query.name)
    order = "ORDER BY j.created_ms DESC, j.id DESC"
    found = f"SELECT j.seq FROM wf_job j INDEXED BY {index} WHERE {' AND '.join(where)} {order} LIMIT ? OFFSET ?"
    return records_of(step.rows(f"{RECORD} WHERE j.seq IN ({found}) {order}", *values, query.limit, query.offset))


def job_logs(step: Step, app: str, job_id: str) -> list[str]:
    """A job's log lines, oldest first."""
    lines = "SELECT l.line FROM wf_job j JOIN wf_log l ON l.seq = j.seq WHERE j.app = ? AND j.id = ? ORDER BY l.line_no"
    return [line for (line,) in step.rows(lines, app, job_id)]


def next_due(step: Step, app: str, queues: Sequence[str]) -> int | None:
    """When the first delayed job of these queues is due."""
    first = """
        SELECT min((SELECT min(j.due_ms) FROM wf_job j INDEXED BY wf_job_due WHERE j.queue = q.queue AND j.state = 2))
        FROM wf_queue q WHERE q.app = ? AND q.name IN (SELECT value FROM json_each(?))
    """
    row = step.row(first, app, msgspec.json.encode(list(queues)).decode())
    return None if row is None else row[0]


def count_jobs(step: Step, app: str, *, housekeeping: bool) -> dict[str, JobCounts]:
    """Counts per queue, each from an index that holds all it needs."""
    with_own = int(housekeeping)
    listed = "SELECT queue, name FROM wf_queue WHERE app = ? AND housekeeping <= ?"
    names: dict[int, str] = {row[0]: row[1] for row in step.rows(listed, app, with_own)}
    counts: dict[int, dict[str, int | None]] = {queue: {} for queue in names}
    for queue, ready, prioritized in step.rows(_READY, with_own):
        if queue in counts:
            counts[queue] |= {"waiting": ready - prioritized, "prioritized": prioritized}
    for query in (_ACTIVE, _PARENTS, _FINISHED):
        for queue, state, count in step.rows(query, with_own):
            if queue in counts:
                counts[queue][STATES[state].value.replace("-", "_")] = count
    for queue, count, retrying in step.rows(_DELAYED, with_own):
        if queue in counts:
            counts[queue] |= {"delayed": count, "retrying": retrying}
    for queue, found in counts.items():
        if found.get("waiting") or found.get("prioritized"):
            found["oldest_ready_ms"] = _oldest(step, queue, with_own)
    return {names[queue]: msgspec.convert(found, JobCounts) for queue, found in counts.items()}


def _oldest(step: Step, queue: int, with_own: int) -> int | None:
    rows = step.rows(_OLDEST_LIFO, queue, with_own) + step.rows(_OLDEST, queue, with_own)
    return min((due_ms for (due_ms,) in rows if due_ms is not None), default=None)
