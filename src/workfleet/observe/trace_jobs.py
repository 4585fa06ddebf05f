"""The spans of jobs: one where they are enqueued, of kind producer, and one for each run, of kind consumer.

A run is in the trace of who enqueued it, or, `linked`, in a trace of its own with a link to that one. Runs that nobody
enqueued, those of schedules, begin a trace; those of the product's own housekeeping have none. Whatever OpenTelemetry
does, no job fails by it: what it raises becomes `SubscriberFailed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from workfleet.events import Event
from workfleet.model.jobs import Enqueued, Failure, JobRecord, JobState
from workfleet.model.outcome import Outcome, RunPolicy, Settlement
from workfleet.ports.spans import BegunRun

from . import trace_names as names
from .trace import (
    Failed,
    add_error,
    below,
    load_provider,
    plain_attributes,
    provided,
    record,
    sender_of,
    told_by,
    traceparent,
    tracer,
)

try:
    from opentelemetry import context as _contexts
    from opentelemetry import trace as _api
except ImportError:  # not installed: nothing is `provided`
    _api = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from opentelemetry.trace import Span

Publish = Callable[[Event], None]

_NO_ERRORS: Final = frozenset({"completed", "retry", "snoozed", "skipped", "cancelled", "given_back"})
"""Outcomes that somebody wanted."""


class RunSpans:
    """An `OpenRun`."""

    def __init__(self, publish: Publish, *, linked: bool) -> None:
        load_provider()
        self._failed, self._linked = told_by(publish), linked

    def __call__(self, job: JobRecord, policy: RunPolicy, shown_as: tuple[str, str] | None) -> BegunRun | None:
        if job.housekeeping or not provided():
            return None
        queue, name = shown_as or (job.queue, job.name)
        try:
            sender = sender_of(job.trace)
            links = [_api.Link(sender)] if self._linked and sender is not None else None
            begun = tracer().start_span(
                f"run {queue}",
                context=below(None if self._linked else sender),
                kind=_api.SpanKind.CONSUMER,
                attributes=plain_attributes(_of_run(job, policy, queue, name)),
                links=links,
            )
            return _Run(begun, self._failed)
        except Exception as error:  # noqa: BLE001 - the boundary around samplers and processors, which are the user's
            self._failed(f"run of {name}", error)
            return None


class _Run:
    """A `BegunRun`."""

    def __init__(self, begun: Span, failed: Failed) -> None:
        self._span, self._failed = begun, failed
        self._token = _contexts.attach(_api.set_span_in_context(begun))

    def end(self, settlement: Settlement | None) -> None:
        try:
            _contexts.detach(self._token)
            if settlement is not None:
                _tell(self._span, settlement.outcome)
            self._span.end()
        except Exception as error:  # noqa: BLE001 - as above: exporters
            self._failed("the end of a run", error)


def _of_run(job: JobRecord, policy: RunPolicy, queue: str, name: str) -> dict[str, object]:
    slot_ms = job.slot_ms
    return {
        **_messaging("run", "process", queue),
        names.MESSAGE: job.id,
        names.CLIENT: job.worker,
        names.JOB: name,
        names.ATTEMPT: job.attempts_made + 1,
        names.ATTEMPTS: policy.attempts,
        names.WAIT: max((job.started_ms or 0) - max(job.created_ms, job.due_ms), 0),
        names.GROUP: job.group or None,
        names.SCHEDULE: job.schedule,
        names.SLOT: None if slot_ms is None else datetime.fromtimestamp(slot_ms / 1000, UTC).isoformat(),
    }


def _messaging(operation: str, kind: str, queue: str | None) -> dict[str, object]:
    return {
        names.SYSTEM: "workfleet",
        names.OPERATION: operation,
        names.OPERATION_TYPE: kind,
        names.DESTINATION: queue,
    }


def _tell(begun: Any, outcome: Outcome) -> None:
    """What the run came to."""
    begun.set_attribute(names.OUTCOME, outcome.code)
    if outcome.state is JobState.DELAYED:
        begun.set_attribute(names.AGAIN, outcome.delay_ms)
    failure = outcome.failure
    if failure is None or outcome.code in _NO_ERRORS:
        return
    add_error(begun, _kind(failure), type_=failure.type, message=failure.message, stacktrace=failure.traceback)


def _kind(failure: Failure) -> str:
    """What a failure is searched by: a code of ours, else the exception's class."""
    return failure.code if failure.code != "raised" else failure.type or failure.code


class EnqueueSpans:
    """An `OpenEnqueue`."""

    def __init__(self, publish: Publish) -> None:
        load_provider()
        self._told = told_by(publish)

    def __call__(
        self, records: Sequence[JobRecord]
    ) -> AbstractContextManager[Callable[[Sequence[Enqueued]], None]] | None:
        if not provided():
            return None
        try:
            begun = _begun(records)
        except Exception as error:  # noqa: BLE001 - as for runs
            self._failed(error)
            return None
        return self._around(begun)

    @contextmanager
    def _around(self, begun: Any) -> Iterator[Callable[[Sequence[Enqueued]], None]]:
        answered: list[Enqueued] = []
        failed: BaseException | None = None
        try:
            yield answered.extend
        except BaseException as error:
            failed = error
            raise
        finally:
            try:
                _end(begun, answered, failed)
            except Exception as error:  # noqa: BLE001 - as for runs
                self._failed(error)

    def _failed(self, error: Exception) -> None:
        self._told("an enqueue", error)


def _begun(records: Sequence[JobRecord]) -> Any:
    """The span in whose trace these jobs are from now on. One for all of them: they are sent in one step."""
    queues, kinds = {job.queue for job in records}, {job.name for job in records}
    queue = queues.pop() if len(queues) == 1 else None
    begun = tracer().start_span(
        f"enqueue {queue}" if queue else "enqueue",
        kind=_api.SpanKind.PRODUCER,
        attributes=plain_attributes(
            {
                **_messaging("enqueue", "send", queue),
                names.JOB: kinds.pop() if len(kinds) == 1 else None,
                names.BATCH: len(records) if len(records) > 1 else None,
            }
        ),
    )
    trace = traceparent(begun)
    for job in records:
        job.trace = trace or job.trace
    return begun


def _end(begun: Any, answered: Sequence[Enqueued], failed: BaseException | None) -> None:
    if failed is not None:
        record(begun, failed)
    elif len(answered) == 1:
        begun.set_attribute(names.MESSAGE, answered[0].id)
        begun.set_attribute(names.CREATED, answered[0].created)
    begun.end()
