"""A job's life as lines: enqueued, ready, each attempt, what comes next or how it ended; and how long each took."""

from __future__ import annotations

from collections.abc import Iterator

from ..model.jobs import FINISHED, READY, Attempt, JobRecord, JobState
from .output import at, near, plain, took
from .summary import told

_ATTEMPTS = 20
_LONGEST = 300
_BLANK = " " * 20


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
    for attempt in job.history[max(earlier, 0) :]:
        waited_ms = None if ready_ms is None else attempt.started_ms - ready_ms
        yield f"{at(attempt.started_ms)}  {_attempt(attempt, waited_ms)}"
        ready_ms = None
    yield from _last(job, ready_ms, now_ms)


def _last(job: JobRecord, ready_ms: int | None, now_ms: int) -> Iterator[str]:
    """Where it is now."""
    if job.history and ready_ms is None and job.state in (*READY, JobState.ACTIVE) and _is_later(job):
        ready_ms = job.due_ms
        yield f"{at(ready_ms)}  ready again{_after(ready_ms - job.history[-1].ended_ms)}"
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
    why = plain(told(attempt.failure)) if attempt.failure else ""
    said = f": {why if len(why) <= _LONGEST else f'{why[:_LONGEST]}…'}" if why else ""
    return f"attempt {attempt.number}{where},{waited} {attempt.outcome} after {spent}{said}"


def _after(ms: int) -> str:
    """ "" where it was at once."""
    return "" if ms <= 0 else f" after {took(ms)}"
