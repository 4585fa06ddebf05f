"""Which job is running, bound to the task or thread by a context variable, so that user code's own lines carry it too.

It is one variable among those that structlog merges (their names begin with its prefix), because binding each field by
itself costs more than the rest of a short run; a structlog that the user configured himself shows `job={…}`, our lines
show the fields flat. Must not know who renders, and does not import structlog.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token, copy_context

from msgspec import Struct

from workfleet.model.jobs import JobRecord

from ..traceparent import Traceparent
from .rendering import instant_text

# structlog.contextvars.STRUCTLOG_KEY_PREFIX; a test holds it to that.
_PREFIX = "structlog_"
_JOB: ContextVar[Mapping[str, object] | _BoundJob] = ContextVar(f"{_PREFIX}job")


Keep = Callable[[str], None]
"""Keeps a line with its job. It may be called from any thread, and raises nothing."""


class _BoundJob(Struct, frozen=True):
    """A run that is bound: most runs write no line, so its fields are made when one is written."""

    job: JobRecord
    keep: Keep | None = None

    def __repr__(self) -> str:
        return repr(job_fields(self.job))


class Bound:
    """While entered, every line of this task, of tasks started in it and of `asyncio.to_thread` carries the fields."""

    __slots__ = ("_fields", "_token")

    def __init__(self, fields: Mapping[str, object]) -> None:
        self._fields = fields
        self._token: Token[Mapping[str, object] | _BoundJob] | None = None

    def __enter__(self) -> None:
        self._token = _JOB.set(self._fields)

    def __exit__(self, *exc_info: object) -> None:
        if self._token is not None:
            _JOB.reset(self._token)
            self._token = None


def bind_job(job: JobRecord, keep: Keep | None = None) -> None:
    """Name this run in every line of this task and what it starts, until the task ends: a run has one of its own.
    `keep` keeps such lines with the job."""
    _JOB.set(_BoundJob(job, keep))


def current_keep() -> Keep | None:
    """What keeps lines with the run that is bound here; None outside of one."""
    bound = _JOB.get(None)
    return bound.keep if isinstance(bound, _BoundJob) else None


def job_fields(job: JobRecord) -> Mapping[str, object]:
    """A run by name: job, job_id, queue, attempt, and schedule and slot where it has them."""
    fields: dict[str, object] = {
        "job": job.name,
        "job_id": job.id,
        "queue": job.queue,
        "attempt": job.attempts_made + 1,
    }
    if job.schedule is not None:
        fields["schedule"] = job.schedule
    if job.slot_ms is not None:
        fields["slot"] = instant_text(job.slot_ms)
    if (sender := Traceparent.read(job.trace)) is not None:
        fields["trace_id"] = sender.trace_id
    return fields


def current_job() -> Mapping[str, object]:
    """The fields of the run that is bound here, {} outside of one. Sent to a child process, it is `Bound` there."""
    return _fields(_JOB.get({}))


def context_fields() -> dict[str, object]:
    """What lines carry here: the run's fields and the current span, then what user code bound with
    `structlog.contextvars`."""
    fields = {**current_job(), **_span_fields()}
    for variable, value in copy_context().items():
        if variable is not _JOB and variable.name.startswith(_PREFIX) and value is not ...:
            fields[variable.name.removeprefix(_PREFIX)] = value
    return fields


def _span_fields() -> dict[str, str]:
    """The current span of OpenTelemetry. Nobody has one where its API was never imported."""
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return {}
    context = api.get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}


def _fields(bound: Mapping[str, object] | _BoundJob) -> Mapping[str, object]:
    return job_fields(bound.job) if isinstance(bound, _BoundJob) else bound
