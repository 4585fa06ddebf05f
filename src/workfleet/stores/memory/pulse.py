"""The parts of a pulse that are about jobs, in memory."""

from __future__ import annotations

from workfleet.model.jobs import JobState
from workfleet.model.outcome import Settlement
from workfleet.ports.pulse import PulseRequest

from . import adding, claiming, ending
from .book import Book


def round_trip(book: Book, request: PulseRequest) -> int:
    """Enqueue the probe, claim, and settle what was claimed. Returns how many were settled."""
    adding.add(book, [request.probe], call=None)
    claimed = claiming.claim(book, request.claim)
    return sum(ending.settle(book, Settlement(record.claim, request.done))[0] for record in claimed)


def stirring(book: Book, name: str, within_ms: int) -> bool:
    """Whether a queue has something to claim, or will have so soon."""
    queue = book.queues.get(name)
    if queue is None or queue.record.paused:
        return False
    until_ms = book.now() + within_ms
    return bool(book.ready_on(name)) or any(
        entry.record.state is JobState.DELAYED and not entry.record.parked and entry.record.due_ms <= until_ms
        for entry in book.open[name].values()
    )
