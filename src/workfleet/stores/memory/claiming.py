"""Who gets which job: ready jobs within the limits, in turns, and jobs of dead owners."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator

from workfleet.model.jobs import JobRecord
from workfleet.ports.jobs import ClaimRequest, TakeOver, Want

from ..wakes import queue_topic
from .book import Book
from .entries import Entry, copy
from .queue import WHOLE


class Line:
    """The ready jobs of a queue during one claim, and which of them is next."""

    def __init__(self, book: Book, name: str) -> None:
        self._book, self._name = book, name
        self._queue = book.queues.get(name)
        self._groups = defaultdict[str, deque[Entry]](deque)
        for entry in book.ready_on(name):
            self._groups[entry.record.group].append(entry)
        self._in_turns = any(self._groups)
        self._running = {group: book.running(name, group) for group in (WHOLE, *self._groups)}

    def take(self, request: ClaimRequest) -> Entry | None:
        """Hand out the next job that nothing holds back."""
        if self._queue is None or self._queue.record.paused or not self._may_start(WHOLE):
            return None
        while groups := [group for group, jobs in self._groups.items() if jobs and self._may_start(group)]:
            group = self._queue.next_turn(groups)
            entry = self._groups[group].popleft()
            # One that was handed out a moment ago may have parked it.
            if not entry.record.parked:
                self._start(entry, request)
                return entry
        return None

    def _start(self, entry: Entry, request: ClaimRequest) -> None:
        assert self._queue is not None
        group = entry.record.group
        self._queue.start(group, self._book.now(), in_turns=self._in_turns)
        self._running[WHOLE] += 1
        self._running[group] += 1
        self._book.hand_out(entry, request.worker, request.token, request.lease_ms)
        self._book.start(entry, request.worker)

    def _may_start(self, group: str | None) -> bool:
        """Whether the limits of a group, or of the whole queue, let one more job start now."""
        assert self._queue is not None
        most, now = self._queue.concurrency(group), self._book.now()
        return (most is None or self._running[group] < most) and self._queue.rate_allows_ms(group, now) == now


def claim(book: Book, request: ClaimRequest) -> list[JobRecord]:
    """Hand out ready jobs. The meaning is `JobStore.claim`'s."""
    book.wakes.looked(queue_topic(want.queue) for want in request.wants)
    held = [entry for entry in book.active.values() if entry.record.token == request.token]
    if not held:
        held = list(_handed_out(book, request))
    return [copy(entry) for entry in held]


def _handed_out(book: Book, request: ClaimRequest) -> Iterator[Entry]:
    lines = {want.queue: Line(book, want.queue) for want in request.wants}
    given = [0] * len(request.wants)
    # First each want up to its share, then each up to its limit.
    for most in (_share, _limit):
        for index, want in enumerate(request.wants):
            while given[index] < most(want) and (request.total is None or sum(given) < request.total):
                entry = lines[want.queue].take(request)
                if entry is None:
                    break
                given[index] += 1
                yield entry


def _share(want: Want) -> int:
    return want.limit if want.share is None else min(want.share, want.limit)


def _limit(want: Want) -> int:
    return want.limit


def take_over(book: Book, request: TakeOver) -> list[JobRecord]:
    """Move jobs of dead owners to a new claim. The meaning is `JobStore.take_over`'s."""
    held = [entry for entry in book.active.values() if entry.record.token == request.token]
    if not held:
        orphans = [entry for entry in book.active.values() if _orphaned(entry, request, book.now())]
        held = sorted(orphans, key=lambda entry: (entry.record.lease_until_ms, entry.number))[: request.limit]
        for entry in held:
            book.hand_out(entry, request.worker, request.token, request.lease_ms)
    return [copy(entry) for entry in held]


def _orphaned(entry: Entry, request: TakeOver, now_ms: int) -> bool:
    if request.workers is not None:
        return entry.holder in request.workers
    return (entry.record.lease_until_ms or 0) <= now_ms
