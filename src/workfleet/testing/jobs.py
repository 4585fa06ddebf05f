"""A job for calling a handler directly: a plain method, a plain object."""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from workfleet.errors import UsageError
from workfleet.model.checks import instant_ms
from workfleet.model.jobtypes import Job

P = TypeVar("P")


class Said:
    """What a handler said through its job: `lines` that it logged, in order, and the values of its `progress`."""

    def __init__(self, *, cancelled: bool) -> None:
        self.lines: list[str] = []
        self.progress_values: list[object] = []
        self._cancelled = cancelled

    def log(self, line: str) -> None:
        self.lines.append(line)

    def progress(self, value: object) -> Awaitable[None]:
        # Kept at once, also when nobody awaits it: a plain `def` handler cannot.
        self.progress_values.append(value)
        return _done()

    def cancelled(self) -> bool:
        return self._cancelled


def job(
    payload: P,
    *,
    attempt: int = 1,
    max_attempts: int = 3,
    id: str = "test",
    name: str = "test",
    queue: str = "test",
    deadline: datetime | None = None,
    schedule: str | None = None,
    slot: datetime | None = None,
    tags: Sequence[str] = (),
    metadata: Mapping[str, str] | None = None,
    group: str = "",
    trace: str | None = None,
    cancelled: bool = False,
) -> Job[P]:
    """A job with this payload, as a handler would get it. `said(job)` tells what the handler said through it."""
    return Job(
        data=payload,
        id=id,
        name=name,
        queue=queue,
        attempt=attempt,
        max_attempts=max_attempts,
        deadline_ms=None if deadline is None else instant_ms(deadline),
        schedule=schedule,
        slot_ms=None if slot is None else instant_ms(slot),
        tags=tuple(tags),
        metadata=dict(metadata or {}),
        group=group,
        trace=trace,
        _port=Said(cancelled=cancelled),
    )


def said(job: Job[Any]) -> Said:
    """What a handler said through a job that `job` made. Raises `UsageError` for any other."""
    port = job._port
    if not isinstance(port, Said):
        raise UsageError(f"job {job.id} was not made by workfleet.testing.job: a fleet keeps what it says in its store")
    return port


class _done:  # noqa: N801 - used as a value
    """Awaitable, and nothing to wait for."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield
