"""Spans of tracing, as those see them who begin them: what runs, what is enqueued, and what another process does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from workfleet.model.jobs import Enqueued, JobRecord
from workfleet.model.outcome import RunPolicy, Settlement


class BegunCall(Protocol):
    """The span of a call that has begun."""

    @property
    def trace(self) -> str | None:
        """It as a W3C `traceparent`; None: nobody looks at spans."""
        ...

    def note(self, name: str, value: object) -> None:
        """Add an attribute; None adds nothing."""
        ...


class OpenSpan(Protocol):
    """Begins a span below the current one, which stays the current one: what the body does is not a part of it. What
    the body raises is recorded in it and goes on."""

    def __call__(self, name: str, attributes: dict[str, object]) -> AbstractContextManager[BegunCall]: ...


class InCall(Protocol):
    """Goes on, in a child, in the trace `sent` that a call has brought along: the body does what the call asks for.
    With the name of its pool it is a span of its own."""

    def __call__(self, pool: str | None, method: str, sent: str) -> AbstractContextManager[object]: ...


@dataclass(frozen=True)
class CallTracing:
    """How the calls of pools are traced."""

    begin: OpenSpan
    current: Callable[[], str | None]
    """The current span as a W3C `traceparent`; None: there is none."""
    inside: str
    """Where a child finds its `InCall`, as `module:name`."""


class BegunRun(Protocol):
    """The span of a run, which is the current one of the task that began it."""

    def end(self, settlement: Settlement | None) -> None:
        """The run is over. None: its code cannot be ended."""
        ...


class OpenRun(Protocol):
    """Begins the span of a run in a task of its own; None: nobody looks at spans. `shown_as`: queue and name as the
    job's own code sees them. Whatever OpenTelemetry does, nothing is raised."""

    def __call__(
        self, record: JobRecord, policy: RunPolicy, shown_as: tuple[str, str] | None, /
    ) -> BegunRun | None: ...


def nobody_looks(_record: JobRecord, _policy: RunPolicy, _shown_as: tuple[str, str] | None) -> BegunRun | None:
    """Runs without spans."""
    return None


class OpenEnqueue(Protocol):
    """Begins the span of an enqueue of these jobs, which become part of its trace; None: nobody looks at spans. The
    body tells what the store answered. What it raises is recorded and goes on; nothing else is raised."""

    def __call__(
        self, records: Sequence[JobRecord]
    ) -> AbstractContextManager[Callable[[Sequence[Enqueued]], None]] | None: ...
