"""A job's life as lines: enqueued, ready, each attempt, what comes next or how it ended; and how long each took."""

from __future__ import annotations

from collections.abc import Iterator

from ..model.jobs import FINISHED, READY, Attempt, JobRecord, JobState
from .output import at, near, plain, took
from .summary import in_a_line, told

_ATTEMPTS = 20
_BLANK = " " * 20
_UNCOUNTED = ("crashed", "snoozed", "unknown_job", "given_back", "expired")
"""Outcomes after which the next attempt has the same number anyway."""


def timeline(job: JobRecord, now_ms: int) -> Iterator[str]:
    """One line a step, the oldest first."""
    yield f"{at(job.created_ms)}  enqueued {near(job.created_ms, now_ms)}"
    ready_ms = _first_ready_ms(job)
    if ready_ms is not None:
        yield f"{at(ready_ms)}  ready{_after(ready_ms - job.created_ms) or ' at once'}"
    earlier = len(job.history) - _ATTEMPTS
    if earlier > 0:
        yield f"{_BLANK}  … {earlier} earlier attempts (--json shows them)"
        ready_ms = None
    shown = job.history[max(earlier, 0) :]
    for before, attempt in zip((None, *shown), shown, strict=False):
        if before is not None and _retried(before, attempt.number):
            yield _made_ready(job, before, attempt.started_ms)
        waited_ms = None if ready_ms is None else attempt.started_ms - ready_ms
        yield f"{at(attempt.started_ms)}  {_attempt(attempt, waited_ms)}"
        ready_ms = None
    yield from _last(job, ready_ms, now_ms)


def _last(job: JobRecord, ready_ms: int | None, now_ms: int) -> Iterator[str]:
    """Where it is now."""
    if job.history and ready_ms is None and job.state in (*READY, JobState.ACTIVE) and _is_later(job):
        ready_ms = job.due_ms
        again = "made ready again" if _retried(job.history[-1], job.attempts_made + 1) else "ready again"
        yield f"{at(ready_ms)}  {again}{_after(ready_ms - job.history[-1].ended_ms)}"
    if job.state is JobState.DELAYED and not job.parked:
        yield f"{at(job.due_ms)}  due {near(job.due_ms, now_ms)}"
    elif job.state in READY and ready_ms is not None:
        yield f"{_BLANK}  waits since {took(max(now_ms - ready_ms, 0))}"
    elif job.state is JobState.ACTIVE and job.started_ms is not None:
        waited = "" if ready_ms is None else _after(job.started_ms - ready_ms)
        runs = took(max(now_ms - job.started_ms, 0))
        yield f"{at(job.started_ms)}  started{waited}, runs for {runs} on {plain(job.worker or '')}"
    elif job.state in FINISHED and job.finished_ms is not None:
        whole = took(max(job.finished_ms - job.created_ms, 0))
        yield f"{at(job.finished_ms)}  {job.state.value} {near(job.finished_ms, now_ms)}, {whole} after it was enqueued"


def _retried(before: Attempt, number: int) -> bool:
    """Whether somebody has retried it after this attempt: only then its attempts are counted from 1 again."""
    return number < before.number or (number == before.number and before.outcome not in _UNCOUNTED)


def _made_ready(job: JobRecord, before: Attempt, started_ms: int) -> str:
    """When that was is known of the last time, as long as nothing else has made it wait."""
    if before.ended_ms <= job.due_ms <= started_ms:
        return f"{at(job.due_ms)}  made ready again{_after(job.due_ms - before.ended_ms)}"
    return f"{_BLANK}  made ready again"


def _first_ready_ms(job: JobRecord) -> int | None:
    """When it was ready first. Afterwards `due_ms` is about its latest attempt, and the first is known no more."""
    if job.due_ms == 0 or (job.state is JobState.DELAYED and not job.history):
        return None
    if job.history and job.due_ms > job.history[0].started_ms:
        return None
    return job.due_ms


def _is_later(job: JobRecord) -> bool:
    return job.due_ms >= job.history[-1].ended_ms


def _attempt(attempt: Attempt, waited_ms: int | None) -> str:
    where = f" on {plain(attempt.worker)}" if attempt.worker else ""
    waited = "" if waited_ms is None else f" started{_after(waited_ms)},"
    spent = took(max(attempt.ended_ms - attempt.started_ms, 0))
    why = in_a_line(told(attempt.failure)) if attempt.failure else ""
    said = f": {why}" if why else ""
    return f"attempt {attempt.number}{where},{waited} {attempt.outcome} after {spent}{said}"


def _after(ms: int) -> str:
    """ "" where it was at once."""
    return "" if ms <= 0 else f" after {took(ms)}"
