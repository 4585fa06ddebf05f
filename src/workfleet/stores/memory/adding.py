"""New jobs in memory: what is there already, who holds the key, and what a newcomer changes."""

from __future__ import annotations

from collections.abc import Sequence

from workfleet.model.jobs import Enqueued, JobRecord

from ..wakes import queue_topic
from .book import Book
from .entries import Entry, state_now


def add(book: Book, jobs: Sequence[JobRecord], *, call: str | None) -> list[Enqueued]:
    """Add jobs. The answers are `JobStore.enqueue`'s."""
    answers: list[Enqueued] = []
    seen: set[str] = set()
    for job in jobs:
        answer = _add(book, job, call, again=job.id in seen)
        seen |= {job.id, answer.id}
        answers.append(answer)
    # Also of what was there already: a repeat may mean that the first wake-up was lost too.
    book.wakes.announce(queue_topic(job.queue) for job in jobs)
    return answers


def _add(book: Book, job: JobRecord, call: str | None, *, again: bool) -> Enqueued:
    there = book.entries.get(job.id)
    if there is not None:
        return Enqueued(job.id, created=not again and _same(there.call, call))
    there = book.replaced.get(job.id)
    if there is not None:
        return Enqueued(there.record.id, created=False, replaced=not again and _same(there.replaced_call, call))
    book.free_of_expired(job.unique_key)
    hold = book.holder(job.unique_key)
    if hold is None:
        _insert(book, job, call)
        return Enqueued(job.id, created=True)
    there = book.entries.get(hold.job_id)
    # The holder of a window may be gone, and its id another job's.
    gone = there is None or there.record.unique_key != job.unique_key
    if job.unique.on_conflict == "keep" or there is None or gone or there.finished or there.claimed:
        return Enqueued(hold.job_id, created=False)
    _replace(book, there, job, call)
    return Enqueued(hold.job_id, created=False, replaced=True)


def _same(first: str | None, call: str | None) -> bool:
    return call is not None and first == call


def _insert(book: Book, job: JobRecord, call: str | None) -> None:
    now = book.now()
    record = JobRecord(
        id=job.id,
        queue=job.queue,
        name=job.name,
        payload=job.payload,
        run=job.run,
        priority=job.priority,
        lifo=job.lifo,
        delay_ms=job.delay_ms,
        due_ms=_due_ms(job, now),
        unique_key=job.unique_key,
        unique=job.unique,
        group=job.group,
        expires_after_ms=job.expires_after_ms,
        expires_ms=_expires_ms(job, now),
        keep=job.keep,
        trace=job.trace,
        schedule=job.schedule,
        slot_ms=job.slot_ms,
        housekeeping=job.housekeeping,
        tags=job.tags,
        metadata=dict(job.metadata),
        created_ms=now,
    )
    queue = book.queue(job.queue)
    queue.had_jobs, queue.had_users_jobs = True, queue.had_users_jobs or not job.housekeeping
    book.begin(Entry(record, book.next_number(), call))


def _replace(book: Book, entry: Entry, job: JobRecord, call: str | None) -> None:
    """A job takes over what a newcomer says, but for its place in the order and its rule."""
    record, now = entry.record, book.now()
    record.name, record.payload, record.run, record.keep, record.trace = (
        job.name,
        job.payload,
        job.run,
        job.keep,
        job.trace,
    )
    record.schedule, record.slot_ms, record.tags, record.metadata = (
        job.schedule,
        job.slot_ms,
        job.tags,
        dict(job.metadata),
    )
    record.expires_after_ms, record.expires_ms = job.expires_after_ms, _expires_ms(job, now)
    if job.unique.on_conflict == "debounce":
        record.delay_ms, record.due_ms = job.delay_ms, _due_ms(job, now)
        record.state = state_now(record, now)
    if not _same(entry.replaced_call, call):
        # Only the last call can be repeated: what the ones before it said is overwritten.
        for newcomer in entry.replaced_by:
            del book.replaced[newcomer]
        entry.replaced_call, entry.replaced_by = call, set()
    entry.replaced_by.add(job.id)
    book.replaced[job.id] = entry
    book.wakes.announce([queue_topic(record.queue)])


def _due_ms(job: JobRecord, now_ms: int) -> int:
    return max(now_ms + job.delay_ms, job.due_ms, now_ms)


def _expires_ms(job: JobRecord, now_ms: int) -> int | None:
    ends = [job.expires_ms, None if job.expires_after_ms is None else now_ms + job.expires_after_ms]
    return min((end for end in ends if end is not None), default=None)
