"""What a job waits for, in memory."""

from __future__ import annotations

from workfleet.model.jobs import READY
from workfleet.ports.jobs import Place

from .book import Book
from .entries import Entry, place
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
    record = entry.record
    if record.state not in READY:
        return 0
    ready = [other for other in book.ready_on(record.queue) if other.record.group == record.group]
    return sum(place(other) < place(entry) for other in ready)
