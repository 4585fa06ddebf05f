"""Questions about jobs. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from workfleet.model.jobs import JobCounts, JobRecord
from workfleet.model.limits import QueueLimits

from .lane import Row, Step
from .limiting import limits_of, limits_rate, next_group, rate_allows_ms
from .records import RECORD, record_of
from .schema import STATES

_READY = """
SELECT queue, count(*), sum(priority > 0) FROM wf_job INDEXED BY wf_job_ready
WHERE state < 2 AND housekeeping <= ? GROUP BY queue
"""
_DELAYED = """
SELECT queue, count(*), count(started_ms) FROM wf_job INDEXED BY wf_job_due
WHERE state = 2 AND parked = 0 AND housekeeping <= ? GROUP BY queue
"""
_PARKED = """
SELECT queue, count(*) FROM wf_job INDEXED BY wf_job_parked WHERE parked = 1 AND housekeeping <= ? GROUP BY queue
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
_NEXT_LEVEL = """
SELECT grp, lifo, priority FROM wf_job INDEXED BY wf_job_ready
WHERE queue = ? AND state < 2 AND (grp, lifo, priority) > (?, ?, ?) ORDER BY grp, lifo, priority LIMIT 1
"""
_OLDEST_OF_LEVEL = """
SELECT min(due_ms) FROM wf_job INDEXED BY wf_job_ready
WHERE queue = ? AND grp = ? AND lifo = ? AND priority = ? AND housekeeping <= ? AND state < 2
"""


def within(step: Step, app: str, ids: Sequence[str], queue: str | None) -> list[str]:
    """The ids, with an id that no job has for each job of another queue."""
    if queue is None:
        return list(ids)
    found = "SELECT q.name FROM wf_job j JOIN wf_queue q ON q.queue = j.queue WHERE j.app = ? AND j.id = ?"
    rows = [step.row(found, app, job_id) for job_id in ids]
    return [job_id if row is not None and row[0] == queue else "" for job_id, row in zip(ids, rows, strict=True)]


def get_jobs(step: Step, app: str, ids: Sequence[str]) -> list[JobRecord | None]:
    """Jobs by id."""
    query = f"{RECORD} WHERE j.app = ? AND j.id = ?"
    rows = [step.row(query, app, job_id) for job_id in ids]
    return [None if row is None else record_of(row) for row in rows]


def job_logs(step: Step, app: str, job_id: str) -> list[str]:
    """A job's log lines, oldest first."""
    lines = "SELECT l.line FROM wf_job j JOIN wf_log l ON l.seq = j.seq WHERE j.app = ? AND j.id = ? ORDER BY l.line_no"
    return [line for (line,) in step.rows(lines, app, job_id)]


def next_due(step: Step, app: str, queues: Sequence[str]) -> int | None:
    """When there may be something to claim without a wake-up: a delayed job is due, or a rate lets one start."""
    first = """
        SELECT q.queue, q.limits, (
          SELECT min(j.due_ms) FROM wf_job j INDEXED BY wf_job_due
          WHERE j.queue = q.queue AND j.state = 2 AND j.parked = 0)
        FROM wf_queue q WHERE q.app = ? AND q.paused = 0 AND q.name IN (SELECT value FROM json_each(?))
    """
    instants: list[int] = []
    for queue, stored, due_ms in step.rows(first, app, msgspec.json.encode(list(queues)).decode()):
        if due_ms is not None:
            instants.append(due_ms)
        limits = limits_of(stored)
        if limits_rate(limits):
            instants += _rate_instants(step, queue, limits)
    return min(instants, default=None)


def stirring_queues(step: Step, app: str, queues: Sequence[str], within_ms: int) -> list[str]:
    """Those of the queues that have something to claim, or will have so soon."""
    stirring = """
        SELECT q.name FROM wf_queue q
        WHERE q.app = ? AND q.paused = 0 AND q.name IN (SELECT value FROM json_each(?)) AND (
          EXISTS (SELECT 1 FROM wf_job j INDEXED BY wf_job_ready WHERE j.queue = q.queue AND j.state < 2)
          OR EXISTS (SELECT 1 FROM wf_job j INDEXED BY wf_job_due
            WHERE j.queue = q.queue AND j.state = 2 AND j.parked = 0 AND j.due_ms <= ?))
    """
    names = msgspec.json.encode(list(queues)).decode()
    return [name for (name,) in step.rows(stirring, app, names, step.now + within_ms)]


def first_expiry(step: Step, app: str) -> int | None:
    """In how many milliseconds the first lease of an active job ends. The meaning is `JobStore.expires_in_ms`'s."""
    row = step.row("SELECT min(lease_until_ms) FROM wf_job INDEXED BY wf_job_active WHERE app = ? AND state = 3", app)
    return None if row is None or row[0] is None else row[0] - step.now


def _rate_instants(step: Step, queue: int, limits: QueueLimits) -> Iterator[int]:
    """When the rates let the ready jobs of each group start that they hold back now."""
    whole = rate_allows_ms(step, queue, "", limits.rate)
    group = next_group(step, queue, "", with_it=True)
    while group is not None and whole is not None:
        own = rate_allows_ms(step, queue, group, limits.of_group(group).rate)
        if own is not None and max(whole, own) > step.now:
            yield max(whole, own)
        group = next_group(step, queue, group)


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
    for queue, count in step.rows(_PARKED, with_own):
        if queue in counts:
            counts[queue]["delayed"] = (counts[queue].get("delayed") or 0) + count
    for queue, found in counts.items():
        if found.get("waiting") or found.get("prioritized"):
            found["oldest_ready_ms"] = _oldest(step, queue, with_own)
    return {names[queue]: msgspec.convert(found, JobCounts) for queue, found in counts.items()}


def _oldest(step: Step, queue: int, with_own: int) -> int | None:
    """Since when the first ready job waits. The first of each group and priority is the oldest of it: as many look-ups
    as there are of these, however many jobs."""
    oldest: list[int] = []
    level: Row | None = ("", -1, -1)
    while level is not None and (level := step.row(_NEXT_LEVEL, queue, *level)) is not None:
        row = step.row(_OLDEST_OF_LEVEL, queue, *level, with_own)
        if row is not None and row[0] is not None:
            oldest.append(row[0])
    return min(oldest, default=None)
