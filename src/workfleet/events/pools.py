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
    cause: str = "crashed"
    """"crashed", "killed" by its pool, or the code of what its call failed with, such as "call_timeout"."""
    method: str | None
    """What it was running."""
    last_words: str
    """The end of its standard error."""
    peak_bytes: int | None = None
    """The most that it held in memory; None where that is not known."""

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


class ReplacementFailed(Event, frozen=True, kw_only=True):
    """A child was to be recycled, and the one that should follow it did not start. The old one works on."""

    wire_name: ClassVar[str] = "replacement.failed"
    level: ClassVar[Level] = "warning"
    text: ClassVar[str] = "pool {pool}: no replacement for child {pid}, which works on: {why}"
    pool: str
    pid: int
    slot: int
    why: str
    retry_ms: int
    """When it is tried again."""


class ChildPrinted(Event, frozen=True, kw_only=True):
    """A line that a child wrote to its standard output or error; one that it logged is a JSON document here, and a line
    of its own in the log."""

    wire_name: ClassVar[str] = "child.printed"
    text: ClassVar[str] = "{pool}[{pid}]: {line}"
    pool: str
    pid: int
    stream: str
    line: str


class PoolCpuLimited(Event, frozen=True, kw_only=True):
    """A pool with `cpu=` has started. `by` is what holds its children to that: "cgroup" or "affinity"."""

    wire_name: ClassVar[str] = "pool.cpu_limited"
    text: ClassVar[str] = "pool {pool}: each child has {cores} cores, by {by}"
    pool: str
    cores: float
    by: str


class PoolScaled(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "pool.scaled"
    text: ClassVar[str] = "pool {pool}: size {new} instead of {old}: {why}"
    pool: str
    old: int
    new: int
    why: str


class PoolOrdered(Event, frozen=True, kw_only=True):
    """An operator told this worker to do something with a pool, and it was done."""

    wire_name: ClassVar[str] = "pool.ordered"
    text: ClassVar[str] = "an operator's order for pool {pool}: {order}"
    pool: str
    order: str
    """ "recycle", or "scale to" and the size."""


class PoolOrderRefused(Event, frozen=True, kw_only=True):
    """An operator told this worker to do something with a pool, and it cannot be done."""

    wire_name: ClassVar[str] = "pool.order_refused"
    level: ClassVar[Level] = "warning"
    text: ClassVar[str] = "an operator's order for pool {pool} was refused ({order}): {reason}"
    pool: str
    order: str
    reason: str


class PoolFailed(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "pool.failed"
    level: ClassVar[Level] = "error"
    text: ClassVar[str] = "pool {pool} has failed and takes no calls: {reason}"
    pool: str
    reason: str
    last_words: str = ""
    """The end of the standard error of the child that died last."""
