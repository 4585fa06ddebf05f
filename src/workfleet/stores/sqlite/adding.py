"""New jobs: by `enqueue`, as follow-ups of a settlement, and by fires."""

from __future__ import annotations

from collections.abc import Sequence

from workfleet.model.jobs import Enqueued, JobRecord

from ..wakes import queue_topic
from .lane import Row, Step
from .records import spec_of

_INTO_JOB = """
INSERT OR IGNORE INTO wf_job
  (seq, app, id, queue, state, lifo, priority, housekeeping, created_ms, due_ms, unique_key)
"""
_INTO_BODY = "INSERT INTO wf_body (seq, name, payload, spec, call)"


def add_jobs(step: Step, app: str, jobs: Sequence[JobRecord], *, call: str | None) -> list[Enqueued]:
    """Insert what is not there yet. The answers are `JobStore.enqueue`'s."""
    if not jobs:
        return []
    first = 1 + (step.row("SELECT coalesce(max(seq), 0) FROM wf_job") or (0,))[0]
    rows = [_row(step, app, seq, job) for seq, job in enumerate(jobs, first)]
    if step.insert(_INTO_JOB, rows) == len(rows):
        added = set(range(first, first + len(rows)))
    else:
        added = {seq for (seq,) in step.rows("SELECT seq FROM wf_job WHERE seq >= ?", first)}
    new = [(seq, job) for seq, job in enumerate(jobs, first) if seq in added]
    step.insert(_INTO_BODY, [(seq, job.name, job.payload, spec_of(job), call) for seq, job in new])
    for name, housekeeping in {(job.queue, int(job.housekeeping)) for _, job in new}:
        _note_use(step, app, name, housekeeping)
    step.topics.update(queue_topic(job.queue) for job in jobs)
    answers: list[Enqueued] = []
    known: set[str] = set()
    for seq, job in enumerate(jobs, first):
        answer = Enqueued(job.id, created=True) if seq in added else _there(step, app, seq, job, call, known)
        answers.append(answer)
        known.add(answer.id)
    return answers


def queue_number(step: Step, app: str, name: str) -> int | None:
    """The number of a queue, None when it never had a job."""
    known = _known_queue(step, app, name)
    return None if known is None else known[0]


def _row(step: Step, app: str, seq: int, job: JobRecord) -> Row:
    due_ms = max(step.now + job.delay_ms, job.due_ms, step.now)
    return (
        seq,
        app,
        job.id,
        _queue(step, app, job.queue),
        2 if due_ms > step.now else int(job.priority > 0),
        int(job.lifo and not job.priority),
        job.priority,
        int(job.housekeeping),
        step.now,
        due_ms,
        job.unique_key,
    )


def _queue(step: Step, app: str, name: str) -> int:
    """The number of a queue, which is noted when it is new."""
    number = queue_number(step, app, name)
    if number is None:
        step.change("INSERT INTO wf_queue (app, name, housekeeping) VALUES (?, ?, 2)", app, name)
        number = queue_number(step, app, name)
    assert number is not None
    return number


def _note_use(step: Step, app: str, name: str, housekeeping: int) -> None:
    """Note that a queue has had a job, and of which kind."""
    known = _known_queue(step, app, name)
    if known is not None and known[1] > housekeeping:
        step.change("UPDATE wf_queue SET housekeeping = ? WHERE queue = ?", housekeeping, known[0])
        step.memo.queues[name] = (known[0], housekeeping)


def _known_queue(step: Step, app: str, name: str) -> tuple[int, int] | None:
    known = step.memo.queues.get(name)
    if known is None:
        row = step.row("SELECT queue, housekeeping FROM wf_queue WHERE app = ? AND name = ?", app, name)
        if row is None:
            return None
        known = step.memo.queues[name] = (row[0], row[1])
    return known


def _there(step: Step, app: str, seq: int, job: JobRecord, call: str | None, known: set[str]) -> Enqueued:
    """The answer for a job that was not inserted: another one has its id or its unique key, and was there before it."""
    found = """
        SELECT b.call FROM wf_job j LEFT JOIN wf_body b ON b.seq = j.seq WHERE j.app = ? AND j.id = ? AND j.seq < ?
    """
    same = step.row(found, app, job.id, seq)
    if same is not None:
        return Enqueued(job.id, created=call is not None and same[0] == call and job.id not in known)
    holder = "SELECT id FROM wf_job WHERE app = ? AND unique_key = ? AND unique_key IS NOT NULL AND state < 5"
    row = step.row(holder, app, job.unique_key)
    assert row is not None
    return Enqueued(row[0], created=False)
