"""What a job waits for, in memory."""

from __future__ import annotations

from workfleet.model.jobs import READY, JobRecord, JobState
from workfleet.ports.jobs import Place

from .book import Book
from .entries import Entry, place, state_now
from .queue import WHOLE


def place_of(book: Book, job_id: str) -> Place | None:
    """The meaning is `JobStore.place`'s."""
    entry = book.entries.get(job_id)
    if entry is None:
        return None
    record, queue, now = entry.record, book.queues.get(entry.record.queue), book.now()
    rivals = [other.record.id for other in book.begun(record.unique_key) if other is not entry]
    starts = [now, now] if queue is None else [queue.rate_allows_ms(which, now) for which in (WHOLE, record.group)]
    return Place(
        ahead=_ahead(book, entry),
        rival=rivals[0] if record.parked and rivals else None,
        starts_ms=None if None in starts else max(at for at in starts if at is not None),
    )


def _ahead(book: Book, entry: Entry) -> int:
    record, now = entry.record, book.now()
    if not _is_ready(record, now):
        return 0
    others = [other for other in book.open[record.queue].values() if other.record.group == record.group]
    return sum(place(other) < place(entry) for other in others if _is_ready(other.record, now))


def _is_ready(record: JobRecord, now_ms: int) -> bool:
    """One that is due is so at the next claim, which is not made here."""
    return record.state in READY or (record.state is JobState.DELAYED and state_now(record, now_ms) in READY)
