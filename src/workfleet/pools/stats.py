"""What a pool tells about itself, as values."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

PoolState = Literal["new", "starting", "degraded", "running", "draining", "failed", "stopping", "stopped"]
"""`starting`: no child is ready; `degraded`: fewer than the size; `failed`: given up, see `reason`."""

ChildState = Literal["starting", "ready", "busy", "spent", "spare", "draining", "stopping", "gone"]
"""`spent`: has had its calls and waits for its replacement; `spare`: a replacement that is ready and waits for its
place; `draining`: ends its calls, takes no more; `stopping`: runs its shutdown hooks."""


class LastExit(Struct, frozen=True, kw_only=True):
    """How a child ended."""

    pid: int
    how: str
    """The signal or exit code."""
    why: str
    """What led to it: a crash, a timeout, recycling."""
    at_ms: int
    """Wall time."""
    peak_bytes: int | None
    """The most that it held in memory; None where the system does not tell."""


class ChildStats(Struct, frozen=True, kw_only=True):
    """One child."""

    slot: int | None
    """The number of its place; None: it waits for one."""
    pid: int
    state: ChildState
    calls: int
    """Calls that it ended."""
    method: str | None
    """What it runs."""
    started_ms: int
    """Wall time."""
    age_ms: int
    memory_bytes: int | None = None
    """What it holds in memory, when it was last measured; None: never yet."""
    cpu_percent: float | None = None
    """Share of one processor, over the time between the last two measures."""
    restarts: int = 0
    """How often a child of its place died unasked and was replaced."""
    last_exit: LastExit | None = None
    """How the child before it ended."""


class PoolStats(Struct, frozen=True, kw_only=True):
    """One pool at this moment. Counters start with the pool."""

    name: str
    state: PoolState
    size: int
    ready: int
    """Places whose child takes calls or runs one."""
    busy: int
    queued: int
    waiting_runs: tuple[str, ...] = ()
    """The jobs for which the longest waiting of those were made; no more than a hundred."""
    calls: int
    """Calls that ended."""
    failures: int
    """Those of them that ended with an error."""
    restarts: int
    """Children started to replace one that died unasked."""
    recycled: int = 0
    """Children replaced by a warm one, because of their age, calls or memory, or because somebody asked."""
    pids: tuple[int, ...]
    children: tuple[ChildStats, ...]
    reason: str = ""
    """Why the pool has failed."""
    cpu_by: Literal["cgroup", "affinity", ""] = ""
    """What holds each child to its share of the processors; empty: nothing does."""
