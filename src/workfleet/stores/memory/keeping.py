"""Which jobs are deleted: by an operator, and by the rules of the clean-up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from workfleet.model.jobs import FINISHED, JobRecord, JobState, KeepRule
from workfleet.ports.jobs import PruneRule

from .book import Book
from .entries import Entry


def delete(book: Book, entry: Entry | None) -> bool:
    """Delete a job that is not active."""
    if entry is None or entry.record.state is JobState.ACTIVE:
        return False
    book.delete(entry)
    return True


def purge(book: Book, queue: str, states: Sequence[JobState], limit: int) -> int:
    """Delete a queue's jobs in these states, never active ones, in the order of their enqueueing."""
    doomed = [
        entry
        for entry in book.entries.values()
        if entry.record.queue == queue and entry.record.state in states and entry.record.state is not JobState.ACTIVE
    ]
    doomed = sorted(doomed, key=lambda entry: entry.number)[:limit]
    for entry in doomed:
        book.delete(entry)
    return len(doomed)


def prune(book: Book, rules: Sequence[PruneRule], limit: int) -> int:
    """Delete finished jobs by the rules and by their own, and what has expired."""
    finished = sorted(
        (entry for entry in book.entries.values() if entry.finished),
        key=lambda entry: (entry.record.finished_ms, entry.number),
    )
    doomed = {entry.record.id: entry for entry in (*_by_rules(book, rules, finished), *_by_their_own(book, finished))}
    pruned = list(doomed.values())[:limit]
    for entry in pruned:
        book.delete(entry)
    book.forget()
    return len(pruned)


def own_rule(record: JobRecord) -> KeepRule | None:
    """What a finished job says itself about how long it is kept."""
    return record.keep.completed if record.state is JobState.COMPLETED else record.keep.failed


def _by_rules(book: Book, rules: Sequence[PruneRule], finished: Sequence[Entry]) -> Iterator[Entry]:
    for rule in rules:
        if rule.state not in FINISHED:
            continue
        by_queue = defaultdict[str, list[Entry]](list)
        for entry in finished:
            record = entry.record
            if record.state is rule.state and record.housekeeping == rule.housekeeping and own_rule(record) is None:
                by_queue[record.queue].append(entry)
        for entries in by_queue.values():
            yield from _beyond(book, entries, rule.age_ms, rule.count)


def _by_their_own(book: Book, finished: Sequence[Entry]) -> Iterator[Entry]:
    alike = defaultdict[tuple[str, JobState, KeepRule], list[Entry]](list)
    for entry in finished:
        rule = own_rule(entry.record)
        if rule is not None:
            alike[entry.record.queue, entry.record.state, rule].append(entry)
    for (_, _, rule), entries in alike.items():
        yield from _beyond(book, entries, rule.age_ms, rule.count)


def _beyond(book: Book, entries: Sequence[Entry], age_ms: int | None, count: int | None) -> Iterable[Entry]:
    """Those that are too old or too many, the oldest first."""
    too_many = 0 if count is None else max(len(entries) - count, 0)
    for index, entry in enumerate(entries):
        if index < too_many or (age_ms is not None and (entry.record.finished_ms or 0) < book.now() - age_ms):
            yield entry
