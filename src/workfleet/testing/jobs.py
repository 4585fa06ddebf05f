"""A job for calling a handler directly: a plain method, a plain object."""

from __future__ import annotations

from typing import TypeVar

from workfleet.model.jobtypes import Job

P = TypeVar("P")


class Said:
    """Keeps what a handler said: a `RunPort` for tests."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.progressed: list[object] = []

    def log(self, line: str) -> None:
        self.lines.append(line)

    async def progress(self, value: object) -> None:
        self.progressed.append(value)

    def cancelled(self) -> bool:
        return False


def job(payload: P, *, attempt: int = 1, max_attempts: int = 3, id: str = "test", name: str = "test") -> Job[P]:
    """A job with this payload, as a handler would get it."""
    return Job(
        data=payload,
        id=id,
        name=name,
        queue="test",
        attempt=attempt,
        max_attempts=max_attempts,
        deadline=None,
        schedule=None,
        slot=None,
        tags=(),
        metadata={},
        _port=Said(),
    )
