"""What happens to pools and their children. They belong to `pools/`."""

from __future__ import annotations

from typing import ClassVar

from .event import Event, Level


class ChildStarted(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "child.started"
    level: ClassVar[Level] = "debug"
    text: ClassVar[str] = "pool {pool}: child {pid} is ready after {duration_ms} ms"
    pool: str
    pid: int
    slot: int
    duration_ms: int


class ChildDied(Event, frozen=True, kw_only=True):
    """A child ended unasked, or the pool had to kill it. A child that stops as it was asked to is not told."""

    wire_name: ClassVar[str] = "child.died"
    level: ClassVar[Level] = "warning"
    text: ClassVar[str] = "pool {pool}: child {pid} died: {why}"
    pool: str
    pid: int
    how: str
    """The signal or exit code."""
    why: str
    method: str | None
    """What it was running."""
    last_words: str
    """The end of its standard error."""

    def severity(self) -> Level:
        # Ended while it still started, because nobody needs it any more: nothing that anybody has to look at.
        return (
            "debug" if self.method is None and self.why in ("the pool is stopping", "no longer wanted") else self.level
        )


class ChildReplaced(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "child.replaced"
    text: ClassVar[str] = "pool {pool}: child {pid} has replaced {old_pid}: {why}"
    pool: str
    pid: int
    old_pid: int
    why: str


class ChildPrinted(Event, frozen=True, kw_only=True):
    """A line that a child wrote to its standard output or error."""

    wire_name: ClassVar[str] = "child.printed"
    text: ClassVar[str] = "{line}"
    pool: str
    pid: int
    stream: str
    line: str


class PoolScaled(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "pool.scaled"
    text: ClassVar[str] = "pool {pool}: size {new} instead of {old}"
    pool: str
    old: int
    new: int


class PoolFailed(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "pool.failed"
    level: ClassVar[Level] = "error"
    text: ClassVar[str] = "pool {pool} has failed and takes no calls: {reason}"
    pool: str
    reason: str
