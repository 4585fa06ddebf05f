"""New jobs: by `enqueue`, as follow-ups of a settlement, and by fires."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from workfleet.model.jobs import Enqueued, JobRecord, Keep, KeepRule

from ..wakes import queue_topic
from .ending import blocked
from .keys_of_jobs import Newcomer, expired_holders, free_of_expired, hold_key, holder_of, key_until, replace_holder
from .lane import Row, Step
from .records import AS_ALL, UNTIL_FINISHED, expires_ms, spec_of

_INTO_JOB = """
INSERT OR IGNORE INTO wf_job
  (seq, app, id, queue, state, lifo, priority, housekeeping, created_ms, due_ms, unique_key)
"""
_INTO_JOB_WIDE = """
INSERT OR IGNORE INTO wf_job
  (seq, app, id, queue, state, lifo, priority, housekeeping, created_ms, due_ms, unique_key,
   grp, parked, key_until, keep)
"""
_INTO_BODY = "INSERT INTO wf_body (seq, name, payload, spec, call)"


def add_jobs(step: Step, app: str, jobs: Sequence[JobRecord], *, call: str | None) -> list[Enqueued]:
    """Insert what is not there yet. The answers are `JobStore.enqueue`'s."""
    if not jobs:
        return []
    step.topics.update(queue_topic(job.queue) for job in jobs)
    if not _one_by_one(step, app, jobs):
        return _add_together(step, app, jobs, call, set())
    known: set[str] = set()
    return [answer for job in jobs for answer in _add_one(step, app, job, call, known)]


def queue_number(step: Step, app: str, name: str) -> int | None:
    """The number of a queue, None when nothing is known of it."""
    noted = _noted_queue(step, app, name)
    return None if noted is None else noted[0]


def known_queue(step: Step, app: str, name: str) -> int:
    """The number of a queue, which is noted when it is new."""
    number = queue_number(step, app, name)
    if number is None:
        step.change("INSERT INTO wf_queue (app, name, housekeeping) VALUES (?, ?, 2)", app, name)
        number = queue_number(step, app, name)
    assert number is not None
    return number


def due_ms(step: Step, job: JobRecord) -> int:
    """The instant at which a new job becomes ready."""
    return max(step.now + job.delay_ms, job.due_ms, step.now)


def own_rules(keep: Keep) -> str:
    """A job's own retention as stored."""
    if keep == AS_ALL:
        return ""
    return f"{_rule(keep.completed)}|{_rule(keep.failed)}"


def set_tags(step: Step, seq: int, tags: Sequence[str]) -> None:
    """Note a job's tags, by which it is found."""
    step.change_many("INSERT OR IGNORE INTO wf_tag (tag, seq) VALUES (?, ?)", [(tag, seq) for tag in tags])


def _rule(rule: KeepRule | None) -> str:
    if rule is None:
        return ""
    return "/".join("" if most is None else str(most) for most in (rule.age_ms, rule.count))


def _one_by_one(step: Step, app: str, jobs: Sequence[JobRecord]) -> bool:
    """Whether jobs are to be judged singly: their keys are held, or hold, by more than an index says."""
    keyed = [job for job in jobs if job.unique_key is not None]
    if keyed and any(job.unique != UNTIL_FINISHED or _is_expired(step, job) for job in keyed):
        return True
    if keyed and step.row("SELECT 1 FROM wf_hold WHERE app = ? LIMIT 1", app):
        return True
    # A job whose id is there already needs no key, and so ends no holder.
    keys = [job.unique_key for job in keyed if job.unique_key is not None]
    if keys and expired_holders(step, app, keys):
        return True
    if not step.row("SELECT 1 FROM wf_replaced WHERE app = ? LIMIT 1", app):
        return False
    ids = msgspec.json.encode([job.id for job in jobs]).decode()
    said = "SELECT 1 FROM wf_replaced WHERE app = ? AND id IN (SELECT value FROM json_each(?)) LIMIT 1"
    return step.row(said, app, ids) is not None


def _is_expired(step: Step, job: JobRecord) -> bool:
    end_ms = expires_ms(job, step.now)
    return end_ms is not None and end_ms <= step.now


def _add_one(step: Step, app: str, job: JobRecord, call: str | None, known: set[str]) -> list[Enqueued]:
    """Add a job when nothing speaks against it: its id, and whoever holds its key."""
    answer = _judged(step, app, job, call, known)
    answers = _add_together(step, app, [job], call, known) if answer is None else [answer]
    known |= {job.id, *(answer.id for answer in answers)}
    return answers


def _judged(step: Step, app: str, job: JobRecord, call: str | None, known: set[str]) -> Enqueued | None:
    """The answer for a job that cannot be added; None when it can, or when its id is there."""
    if step.row("SELECT 1 FROM wf_job WHERE app = ? AND id = ?", app, job.id):
        return None
    repeat = """
        SELECT j.id, r.call FROM wf_replaced r JOIN wf_job j ON j.seq = r.seq WHERE r.app = ? AND r.id = ?
    """
    row = step.row(repeat, app, job.id)
    if row is not None:
        same = call is not None and row[1] == call
        return Enqueued(row[0], created=False, replaced=same and job.id not in known)
    if job.unique_key is None:
        return None
    free_of_expired(step, app, job.unique_key)
    holder = holder_of(step, app, job.unique_key)
    if holder is None:
        return None
    newcomer = Newcomer(job, call, due_ms(step, job))
    replaced = job.unique.on_conflict != "keep" and replace_holder(step, app, holder, newcomer)
    if replaced:
        row = step.row("SELECT seq FROM wf_job WHERE app = ? AND id = ?", app, holder)
        assert row is not None
        step.change("DELETE FROM wf_tag WHERE seq = ?", row[0])
        set_tags(step, row[0], job.tags)
        step.change("UPDATE wf_job SET keep = ? WHERE seq = ?", own_rules(job.keep), row[0])
    return Enqueued(holder, created=False, replaced=replaced)


def _add_together(step: Step, app: str, jobs: Sequence[JobRecord], call: str | None, known: set[str]) -> list[Enqueued]:
    """Insert jobs that only an index can refuse, many at a time."""
    first = 1 + (step.row("SELECT coalesce(max(seq), 0) FROM wf_job") or (0,))[0]
    if all(map(_is_plain, jobs)):
        rows = [_row(step, app, seq, job) for seq, job in enumerate(jobs, first)]
        inserted = step.insert(_INTO_JOB, rows)
    else:
        rows = [_wide_row(step, app, seq, job) for seq, job in enumerate(jobs, first)]
        inserted = step.insert(_INTO_JOB_WIDE, rows)
    new = list(enumerate(jobs, first))
    added = set[int]()
    all_new = inserted == len(rows)
    if not all_new:
        added = {seq for (seq,) in step.rows("SELECT seq FROM wf_job WHERE seq >= ?", first)}
        new = [(seq, job) for seq, job in new if seq in added]
    step.insert(_INTO_BODY, [(seq, job.name, job.payload, spec_of(job, step.now), call) for seq, job in new])
    for seq, job in new:
        if job.tags:
            set_tags(step, seq, job.tags)
        if job.unique_key is not None and job.unique.window_ms:
            hold_key(step, app, job)
    for name, housekeeping in {(job.queue, job.housekeeping) for _, job in new}:
        _note_use(step, app, name, int(housekeeping))
    if all_new:
        return [Enqueued(job.id, created=True) for job in jobs]
    answers: list[Enqueued] = []
    for seq, job in enumerate(jobs, first):
        answer = Enqueued(job.id, created=True) if seq in added else _there(step, app, seq, job, call, known)
        answers.append(answer)
        known.update((job.id, answer.id))
    return answers


def _is_plain(job: JobRecord) -> bool:
    """Whether it says nothing that has columns of its own."""
    return not (
        job.group
        or (job.unique_key is not None and job.unique != UNTIL_FINISHED)
        or (job.keep is not AS_ALL and job.keep != AS_ALL)
    )


def _row(step: Step, app: str, seq: int, job: JobRecord) -> Row:
    due = due_ms(step, job)
    return (
        seq,
        app,
        job.id,
        known_queue(step, app, job.queue),
        2 if due > step.now else int(job.priority > 0),
        int(job.lifo and not job.priority),
        job.priority,
        int(job.housekeeping),
        step.now,
        due,
        job.unique_key,
    )


def _wide_row(step: Step, app: str, seq: int, job: JobRecord) -> Row:
    rule = job.unique
    parked = job.unique_key is not None and rule.exclusive and blocked(step, app, job.unique_key)
    row = _row(step, app, seq, job)
    if parked:
        row = (*row[:4], 2, *row[5:])
    until = 0 if job.unique_key is None else key_until(rule)
    return (*row, job.group, int(parked), until, own_rules(job.keep))


def _note_use(step: Step, app: str, name: str, housekeeping: int) -> None:
    """Note that a queue has had a job, and of which kind."""
    noted = _noted_queue(step, app, name)
    if noted is not None and noted[1] > housekeeping:
        step.change("UPDATE wf_queue SET housekeeping = ? WHERE queue = ?", housekeeping, noted[0])
        step.memo.queues[name] = (noted[0], housekeeping)


def _noted_queue(step: Step, app: str, name: str) -> tuple[int, int] | None:
    noted = step.memo.queues.get(name)
    if noted is None:
        row = step.row("SELECT queue, housekeeping FROM wf_queue WHERE app = ? AND name = ?", app, name)
        if row is None:
            return None
        noted = step.memo.queues[name] = (row[0], row[1])
    return noted


def _there(step: Step, app: str, seq: int, job: JobRecord, call: str | None, known: set[str]) -> Enqueued:
    """The answer for a job that was not inserted: another one has its id or its unique key, and was there before it."""
    found = """
        SELECT b.call FROM wf_job j LEFT JOIN wf_body b ON b.seq = j.seq WHERE j.app = ? AND j.id = ? AND j.seq < ?
    """
    same = step.row(found, app, job.id, seq)
    if same is not None:
        return Enqueued(job.id, created=call is not None and same[0] == call and job.id not in known)
    holder = None if job.unique_key is None else holder_of(step, app, job.unique_key)
    assert holder is not None
    return Enqueued(holder, created=False)
