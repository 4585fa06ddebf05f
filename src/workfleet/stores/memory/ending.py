"""How a job goes on after a run, and what an operator makes of it: outcomes, cancel, promote, retry."""

from __future__ import annotations

from workfleet.model.jobs import CANCELLED_UNRUN, FINISHED, HISTORY_LIMIT, CancelAnswer, Claim, JobState
from workfleet.model.outcome import Settlement, left_out, left_out_by, result_with

from ..wakes import CANCELS, queue_topic
from .adding import add
from .book import Book
from .entries import Entry, state_now


def held(book: Book, claim: Claim) -> Entry | None:
    """The entry of a claim that is not stale."""
    entry = book.active.get(claim.job_id)
    return entry if entry is not None and entry.record.token == claim.token else None


def settle(book: Book, settlement: Settlement) -> tuple[bool, tuple[int, ...]]:
    """Apply an outcome under its claim: whether it is, and `Settled.left_out`. The meaning is `JobStore.settle`'s."""
    entry, outcome = held(book, settlement.claim), settlement.outcome
    if entry is None:
        settled = book.entries.get(settlement.claim.job_id)
        if settled is None or settled.settled_token != settlement.claim.token:
            return False, ()
        return True, left_out_by(outcome, settled.record.result)
    record = entry.record
    record.attempts_made, record.crashes = outcome.attempts_made, outcome.crashes
    record.deferrals, record.suspicions = outcome.deferrals, outcome.suspicions
    record.outcome, record.result, record.failure = outcome.code, outcome.result, outcome.failure
    if outcome.attempt is not None:
        record.history = (*record.history, outcome.attempt)[-HISTORY_LIMIT:]
    entry.settled_token = settlement.claim.token
    if outcome.state in FINISHED:
        book.end(entry, outcome.state)
    else:
        book.put_back(entry, delay_ms=outcome.delay_ms if outcome.state is JobState.DELAYED else None)
    answers = add(book, outcome.follow_up, call=None)
    record.result = result_with(outcome, [added.id for added in answers])
    return True, left_out(answers)


def cancel(book: Book, entry: Entry | None) -> CancelAnswer:
    """Cancel a job. The meaning is `JobStore.cancel`'s."""
    if entry is None:
        return "missing"
    if entry.finished:
        return "finished"
    if entry.record.state is JobState.ACTIVE:
        entry.record.cancel_asked = True
        book.wakes.announce([CANCELS])
        return "asked"
    entry.record.outcome, entry.record.failure = "cancelled", CANCELLED_UNRUN
    book.end(entry, JobState.FAILED)
    return "cancelled"


def promote(book: Book, entry: Entry | None) -> bool:
    """Make a delayed job ready now."""
    if entry is None or entry.record.state is not JobState.DELAYED or entry.record.parked:
        return False
    entry.record.due_ms = book.now()
    entry.record.state = state_now(entry.record, book.now())
    book.wakes.announce([queue_topic(entry.record.queue)])
    return True


def retry(book: Book, entry: Entry | None) -> bool:
    """Make a failed job ready again."""
    if entry is None or entry.record.state is not JobState.FAILED:
        return False
    record = entry.record
    book.free_of_expired(record.unique_key)
    hold = book.holder(record.unique_key)
    if hold is not None and hold.job_id != record.id:
        return False
    record.due_ms, record.expires_ms = book.now(), None
    record.attempts_made = record.crashes = record.deferrals = record.suspicions = 0
    record.cancel_asked = False
    record.started_ms = record.finished_ms = record.outcome = None
    record.result = record.failure = record.progress = entry.reported_call = None
    book.begin(entry)
    return True
