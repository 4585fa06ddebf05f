"""Stored values as JSON documents: what `--json` writes. Instants are ISO 8601 in UTC, durations end in `_ms`.

Their names are stable: scripts depend on them. A later release may add some.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from msgspec import to_builtins

from ..model.fleet import ChildReport, PoolReport, WorkerRecord
from ..model.jobs import Attempt, Failure, JobCounts, JobRecord
from ..observe.logs.rendering import instant_text
from ..queues.queues import QueueInfo
from ..schedules.info import ScheduleInfo


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
        "parked": job.parked,
        "group": job.group or None,
        "expires": instant(job.expires_ms),
        "cancel_asked": job.cancel_asked,
        "tags": list(job.tags),
        "metadata": job.metadata,
        "failure": _failure(job.failure),
    }


def whole_job(job: JobRecord, logs: list[str]) -> dict[str, Any]:
    """A job with payload, result, progress, its own options, history and logs."""
    return {
        **job_document(job),
        "lifo": job.lifo,
        "delay_ms": job.delay_ms,
        "trace": job.trace,
        "options": to_builtins(job.run),
        "unique": to_builtins(job.unique) if job.unique_key is not None else None,
        "keep": to_builtins(job.keep),
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


def queue_document(info: QueueInfo) -> dict[str, Any]:
    """A queue with its jobs by state. `retrying` are those of `delayed` that have run before."""
    counts: JobCounts = info.counts
    return {
        "queue": info.name,
        "paused": info.paused,
        "waiting": counts.waiting,
        "prioritized": counts.prioritized,
        "delayed": counts.delayed,
        "retrying": counts.retrying,
        "active": counts.active,
        "completed": counts.completed,
        "failed": counts.failed,
        "waiting_children": counts.waiting_children,
        "oldest_ready": instant(counts.oldest_ready_ms),
        "limits": to_builtins(info.limits),
    }


def worker_document(worker: WorkerRecord, state: str) -> dict[str, Any]:
    """A worker. `state` is on, what it was told, silent or gone."""
    return {
        "id": worker.id,
        "host": worker.identity.host,
        "pid": worker.identity.pid,
        "state": state,
        "instruction": worker.instruction,
        "active": worker.active,
        "queues": list(worker.queues),
        "release": worker.release or None,
        "started": instant(worker.started_ms),
        "seen": instant(worker.seen_ms),
    }


def pool_document(worker: WorkerRecord, state: str, pool: PoolReport) -> dict[str, Any]:
    """A pool of a worker. `worker_state` is as a worker's `state`; `seen` says of when the facts are."""
    return {
        "pool": pool.name,
        "worker": worker.id,
        "host": worker.identity.host,
        "worker_state": state,
        "seen": instant(worker.seen_ms),
        "state": pool.state,
        "isolation": pool.isolation,
        "size": pool.size,
        "min_size": pool.min_size,
        "max_size": pool.max_size,
        "ready": pool.ready,
        "busy": pool.busy,
        "queued": pool.queued,
        "calls": pool.calls,
        "failures": pool.failures,
        "restarts": pool.restarts,
        "cpu_limit": pool.cpu or None,
        "reason": pool.reason or None,
        "children": [_child(child) for child in pool.children],
        "unlisted_children": pool.unlisted,
        "orders": [to_builtins(order) for order in worker.orders if order.pool == pool.name],
    }


def _child(child: ChildReport) -> dict[str, Any]:
    return {field: getattr(child, field) for field in child.__struct_fields__}


def schedule_document(info: ScheduleInfo) -> dict[str, Any]:
    """A schedule with its fields as `ScheduleInfo` has them, but `overdue_ms` for `overdue`."""
    fields = asdict(info)
    overdue: timedelta | None = fields.pop("overdue")
    told = {name: _iso(value) if isinstance(value, datetime) else value for name, value in fields.items()}
    return told | {"overdue_ms": 0 if overdue is None else overdue // timedelta(milliseconds=1)}


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
