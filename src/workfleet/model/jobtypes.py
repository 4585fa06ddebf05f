"""What users hold: a `JobType` makes a `NewJob`, a value; a handler gets a `Job`, a view of one run.

Calling a job type with a payload is where all typing of payloads lives. These classes know no store: `Job` says what it
has to say through the small `RunPort` that the runner gives it."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar, Unpack, overload

from .names import plain_name, queue_name
from .options import JobOptions

P = TypeVar("P")
R = TypeVar("R")


class RunPort(Protocol):
    """What a running job may tell the outside."""

    def log(self, line: str) -> None: ...
    def progress(self, value: object) -> Awaitable[None]: ...
    def cancelled(self) -> bool: ...


@dataclass(frozen=True, eq=False)
class Job(Generic[P]):
    """One run of a job, as its handler sees it. `data` is the payload in its declared type."""

    data: P
    id: str
    name: str
    queue: str
    attempt: int
    """From 1."""
    max_attempts: int
    deadline: datetime | None
    """When the run's timeout ends it."""
    schedule: str | None
    """The schedule whose fire made this job."""
    slot: datetime | None
    """The instant that the schedule computed for this fire."""
    tags: Sequence[str]
    metadata: Mapping[str, str]
    _port: RunPort

    def log(self, line: str) -> None:
        """Keep a line with the job, and write it to the worker's log."""
        self._port.log(line)

    def progress(self, value: object) -> Awaitable[None]:
        """Keep any JSON value as the job's progress: `await job.progress(40)`, which raises `StaleClaim` when this run
        lost its claim. A handler that is a plain function calls it without `await`. Raises `PayloadRejected`."""
        return self._port.progress(value)

    @property
    def cancelled(self) -> bool:
        """Whether this run should stop: its claim or its deadline is lost. For code that cannot be cancelled."""
        return self._port.cancelled()


@dataclass(frozen=True)
class NewJob(Generic[R]):
    """A job that is not enqueued yet: a value, equal when everything in it is equal."""

    type: JobType[Any, R]
    payload: object
    options: JobOptions = field(default_factory=JobOptions)

    def with_options(self, **options: Unpack[JobOptions]) -> NewJob[R]:
        """The same job with some options replaced."""
        merged: JobOptions = {**self.options, **options}
        return replace(self, options=merged)


class JobType(Generic[P, R]):
    """A name on a queue, with its payload and result types. Calling it makes a job.

    Two job types are equal when name and queue are, so that a producer's own and the handler's agree. `payload` and
    `result` may be a hint that is resolved later: a decorator cannot read hints yet."""

    @overload
    def __init__(self: JobType[P, None], name: str, payload: type[P], *, queue: str | None = ...) -> None: ...
    @overload
    def __init__(
        self: JobType[P, R], name: str, payload: type[P], result: type[R], *, queue: str | None = ...
    ) -> None: ...
    def __init__(self, name: str, payload: Any, result: Any = None, *, queue: str | None = None) -> None:
        self.name: str = plain_name("job", name)
        self.payload: Any = payload
        self.result: Any = result
        self.queue: str | None = None if queue is None else queue_name(queue)

    def on(self, queue: str) -> JobType[P, R]:
        """The same type on another queue."""
        moved: JobType[P, R] = object.__new__(type(self))
        moved.name, moved.payload, moved.result, moved.queue = self.name, self.payload, self.result, queue_name(queue)
        return moved

    @overload
    def __call__(self: JobType[None, R], payload: None = None, /, **options: Unpack[JobOptions]) -> NewJob[R]: ...
    @overload
    def __call__(self, payload: P, /, **options: Unpack[JobOptions]) -> NewJob[R]: ...
    def __call__(self, payload: Any = None, /, **options: Unpack[JobOptions]) -> NewJob[R]:
        return NewJob(self, payload, options)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, JobType):
            return NotImplemented
        return (self.name, self.queue) == (other.name, other.queue)

    def __hash__(self) -> int:
        return hash((self.name, self.queue))

    def __repr__(self) -> str:
        return f"JobType({self.name!r}, queue={self.queue!r})"
