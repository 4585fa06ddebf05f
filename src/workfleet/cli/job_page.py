"""How `jobs show` shows a job to a person."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ..model.jobs import FINISHED, Attempt, JobRecord, JobState
from .output import at, indented, lines_of, near, plain, took, write, write_facts
from .summary import reason, told

_ATTEMPTS = 20


def write_job(job: JobRecord, logs: list[str], now_ms: int) -> None:
    """Facts, payload, timeline, the last traceback, logs, progress and result; what a job does not have is left out."""
    write_facts(_facts(job, now_ms))
    _section("payload", _readable(job.payload))
    _section("timeline", "\n".join(_timeline(job, now_ms)))
    if job.failure is not None and job.failure.traceback:
        _section("traceback", job.failure.traceback.rstrip())
    if logs:
        _section("logs", "\n".join(logs))
    if job.progress is not None:
        _section("progress", _readable(job.progress))
    if job.result is not None:
        _section("result", _readable(job.result))


def _section(title: str, text: str) -> None:
    write()
    write(title)
    write(indented(text))


def _facts(job: JobRecord, now_ms: int) -> Iterator[tuple[str, str]]:
    yield "job", job.id
    yield "name", job.name
    yield "queue", job.queue
    outcome = job.outcome if job.outcome not in (None, job.state.value) else None
    yield "state", f"{job.state.value} ({outcome})" if outcome else job.state.value
    yield "failure", reason(job) if job.failure else ""
    yield "attempts", f"{job.attempts_made} made" + (f", {job.crashes} crashed" if job.crashes else "")
    yield "priority", str(job.priority) if job.priority else ""
    yield "worker", f"{job.worker}, lease ends {near(job.lease_until_ms, now_ms)}" if job.worker else ""
    yield "schedule", job.schedule or ""
    yield "slot", at(job.slot_ms)
    yield "unique", job.unique_key or ""
    yield "tags", ", ".join(job.tags)
    yield "metadata", ", ".join(f"{name}={value}" for name, value in job.metadata.items())


def _timeline(job: JobRecord, now_ms: int) -> Iterator[str]:
    yield f"{at(job.created_ms)}  created {near(job.created_ms, now_ms)}"
    earlier = len(job.history) - _ATTEMPTS
    if earlier > 0:
        yield f"{' ' * 20}  … {earlier} earlier attempts (--json shows them)"
    for attempt in job.history[-_ATTEMPTS:]:
        yield _attempt(attempt)
    if job.state is JobState.DELAYED:
        yield f"{at(job.due_ms)}  due {near(job.due_ms, now_ms)}"
    elif job.state is JobState.ACTIVE:
        yield f"{at(job.started_ms)}  started {near(job.started_ms, now_ms)}, runs on {plain(job.worker or '')}"
    elif job.state in FINISHED:
        yield f"{at(job.finished_ms)}  {job.state.value} {near(job.finished_ms, now_ms)}"


def _attempt(attempt: Attempt) -> str:
    why = f": {plain(told(attempt.failure))}" if attempt.failure else ""
    where = f" on {plain(attempt.worker)}" if attempt.worker else ""
    spent = took(max(attempt.ended_ms - attempt.started_ms, 0))
    return f"{at(attempt.started_ms)}  attempt {attempt.number}{where}, {attempt.outcome} after {spent}{why}"


def _readable(data: bytes) -> str:
    """Stored JSON, indented; what is none as it is, and said so."""
    try:
        return lines_of(json.dumps(json.loads(data), indent=2, ensure_ascii=False))
    except (ValueError, RecursionError):
        return f"(no JSON) {data.decode(errors='backslashreplace')}"
