"""Stored values as JSON documents: what `--json` writes. Instants are ISO 8601 in UTC, durations end in `_ms`.

Their names are stable: scripts depend on them. A later release may add some.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from typing import Any

from msgspec import UNSET

from ..model.jobs import Attempt, Failure, JobCounts, JobRecord
from ..observe.logs.rendering import instant_text
from ..schedules.schedules import ScheduleInfo


def job_document(job: JobRecord) -> dict[str, Any]:
    """A job in a listing: everything but what may be large."""
    return {
        "id": job.id,
        "queue": job.queue,
        "name": job.name,
        "state": job.state.value,
        "outcome": job.outcome,
        "attempts_made": job.attempts_made,
        "crashes": job.crashes,
        "priority": job.priority,
        "created": instant(job.created_ms),
        "due": instant(job.due_ms or None),
        "started": instant(job.started_ms),
        "finished": instant(job.finished_ms),
        "worker": job.worker,
        "schedule": job.schedule,
        "slot": instant(job.slot_ms),
        "unique_key": job.unique_key,
        "tags": list(job.tags),
        "metadata": job.metadata,
        "failure": _failure(job.failure),
    }


def whole_job(job: JobRecord, logs: list[str]) -> dict[str, Any]:
    """A job with payload, result, progress, its own options, history and logs."""
    own = {"attempts": job.run.attempts, "timeout_ms": job.run.timeout_ms}
    return {
        **job_document(job),
        "options": {name: value for name, value in own.items() if value is not UNSET},
        **stored("payload", job.payload),
        **stored("result", job.result),
        **stored("progress", job.progress),
        "history": [_attempt(attempt) for attempt in job.history],
        "logs": logs,
    }


def stored(name: str, data: bytes | None) -> dict[str, Any]:
    """A stored JSON value under its name. What is no JSON is kept as text under `<name>_text`."""
    try:
        return {name: None if data is None else json.loads(data, parse_constant=_refuse)}
    except (ValueError, RecursionError):
        return {name: None, f"{name}_text": (data or b"").decode(errors="backslashreplace")}


def counts_document(queue: str, counts: JobCounts) -> dict[str, Any]:
    """A queue's jobs by state. `retrying` are those of `delayed` that have run before."""
    return {
        "queue": queue,
        "waiting": counts.waiting,
        "prioritized": counts.prioritized,
        "delayed": counts.delayed,
        "retrying": counts.retrying,
        "active": counts.active,
        "completed": counts.completed,
        "failed": counts.failed,
        "waiting_children": counts.waiting_children,
        "oldest_ready": instant(counts.oldest_ready_ms),
    }


def schedule_document(info: ScheduleInfo) -> dict[str, Any]:
    """A schedule with its fields as `ScheduleInfo` has them."""
    return {name: _iso(value) if isinstance(value, datetime) else value for name, value in asdict(info).items()}


def instant(ms: int | None) -> str | None:
    """An instant as programs read it."""
    return None if ms is None else instant_text(ms)


def _attempt(attempt: Attempt) -> dict[str, Any]:
    failure = _failure(attempt.failure)
    if failure is not None and attempt.failure is not None:
        failure["traceback"] = attempt.failure.traceback
    return {
        "number": attempt.number,
        "outcome": attempt.outcome,
        "started": instant(attempt.started_ms),
        "ended": instant(attempt.ended_ms),
        "duration_ms": attempt.ended_ms - attempt.started_ms,
        "worker": attempt.worker,
        "failure": failure,
    }


def _failure(failure: Failure | None) -> dict[str, str] | None:
    if failure is None:
        return None
    return {"code": failure.code, "type": failure.type, "message": failure.message}


def _iso(value: datetime) -> str:
    precision = "milliseconds" if value.microsecond else "seconds"
    return value.isoformat(timespec=precision).replace("+00:00", "Z")


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
