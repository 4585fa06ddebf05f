"""What users hold: a `JobType` makes a `NewJob`, a value; a handler gets a `Job`, a view of one run.

Calling a job type with a payload is where all typing of payloads lives. These classes know no store: `Job` says what it
has to say through the small `RunPort` that the runner gives it."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, Protocol, TypeVar, Unpack, overload

from msgspec import Struct

from .durations import SizeLike
from .names import plain_name, queue_name
from .options import JobOptions
from .queue import payload_bytes

P = TypeVar("P")
R = TypeVar("R")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class RunPort(Protocol):
    """What a running job may tell the outside."""

    def log(self, line: str) -> None: ...
    def progress(self, value: object) -> Awaitable[None]: ...
    def cancelled(self) -> bool: ...


class Job(Struct, Generic[P], frozen=True, eq=False, weakref=True):
    """One run of a job, as its handler sees it. `data` is the payload in its declared type."""

    data: P
    id: str
    name: str
    queue: str
    attempt: int
    """From 1."""
    max_attempts: int
    deadline_ms: int | None
    """When the run's timeout ends it, in milliseconds of Unix time."""
    schedule: str | None
    """The schedule whose fire made this job."""
    slot_ms: int | None
    """The instant that the schedule computed for this fire, in milliseconds of Unix time."""
    tags: Sequence[str]
    metadata: Mapping[str, str]
    group: str
    """The group of its queue that it takes turns in. Empty: none."""
    trace: str | None
    """The trace that enqueued it, as a W3C `traceparent`."""
    _port: RunPort

    @property
    def deadline(self) -> datetime | None:
        """When the run's timeout ends it."""
        return None if self.deadline_ms is None else _instant(self.deadline_ms)

    @property
    def slot(self) -> datetime | None:
        """The instant that the schedule computed for this fire."""
        return None if self.slot_ms is None else _instant(self.slot_ms)

    def log(self, line: str) -> None:
        """Keep a line with the job, and write it to the worker's log, both with secrets hidden. A store that is slow or
        down does not stop the run: what is lost then is told, in the job's lines and as `job.lines_lost`."""
        self._port.log(line)

    def progress(self, value: object) -> Awaitable[None]:
        """Keep any JSON value as the job's progress: `await job.progress(40)`, which raises `StaleClaim` when this run
        lost its claim. A handler that is a plain function calls it without `await`. Raises `PayloadRejected`."""
        return self._port.progress(value)

    @property
    def cancelled(self) -> bool:
        """Whether this run should stop: its claim or its deadline is lost. For code that cannot be cancelled."""
        return self._port.cancelled()


def _instant(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=ms)


class JobContext:
    """The run under way, without its payload: whatever lives as long as one run can take it as a parameter, so that
    code below a handler needs no job passed along. In a test: `JobContext(testing.job(None))`."""

    __slots__ = ("_job",)

    def __init__(self, job: Job[Any]) -> None:
        self._job = job

    @property
    def id(self) -> str:
        return self._job.id

    @property
    def name(self) -> str:
        return self._job.name

    @property
    def queue(self) -> str:
        return self._job.queue

    @property
    def attempt(self) -> int:
        """From 1."""
        return self._job.attempt

    @property
    def max_attempts(self) -> int:
        return self._job.max_attempts

    @property
    def deadline(self) -> datetime | None:
        """When the run's timeout ends it."""
        return self._job.deadline

    @property
    def schedule(self) -> str | None:
        """The schedule whose fire made this job."""
        return self._job.schedule

    @property
    def slot(self) -> datetime | None:
        """The instant that the schedule computed for this fire."""
        return self._job.slot

    @property
    def tags(self) -> Sequence[str]:
        return self._job.tags

    @property
    def metadata(self) -> Mapping[str, str]:
        return self._job.metadata

    @property
    def group(self) -> str:
        """The group of its queue that it belongs to; empty: none."""
        return self._job.group

    @property
    def trace(self) -> str | None:
        """The trace that enqueued it, as a W3C `traceparent`."""
        return self._job.trace

    @property
    def cancelled(self) -> bool:
        """As `Job.cancelled`."""
        return self._job.cancelled

    def log(self, line: str) -> None:
        """As `Job.log`."""
        self._job.log(line)

    def progress(self, value: object) -> Awaitable[None]:
        """As `Job.progress`."""
        return self._job.progress(value)

    def __repr__(self) -> str:
        return f"JobContext({self.name!r}, id={self.id!r}, attempt={self.attempt})"


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
    `result` may be a hint that is resolved later: a decorator cannot read hints yet. `max_payload` is for a producer
    that has not the code which says it of the queue."""

    @overload
    def __init__(
        self: JobType[P, None],
        name: str,
        payload: type[P],
        *,
        queue: str | None = ...,
        max_payload: SizeLike | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: JobType[P, R],
        name: str,
        payload: type[P],
        result: type[R],
        *,
        queue: str | None = ...,
        max_payload: SizeLike | None = ...,
    ) -> None: ...
    def __init__(
        self,
        name: str,
        payload: Any,
        result: Any = None,
        *,
        queue: str | None = None,
        max_payload: SizeLike | None = None,
    ) -> None:
        self.name: str = plain_name("job", name)
        self.payload: Any = payload
        self.result: Any = result
        self.queue: str | None = None if queue is None else queue_name(queue)
        self.payload_limit: int | None = None if max_payload is None else payload_bytes("max_payload", max_payload)
        """Bytes that a payload may have, where the type says it."""

    def on(self, queue: str, *, payload_limit: int | None = None) -> JobType[P, R]:
        """The same type on another queue, with the limit that is said of that queue, if any."""
        moved: JobType[P, R] = object.__new__(type(self))
        moved.name, moved.payload, moved.result, moved.queue = self.name, self.payload, self.result, queue_name(queue)
        moved.payload_limit = self.payload_limit if payload_limit is None else payload_limit
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
