"""What a pool tells about itself, as values."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

PoolState = Literal["new", "starting", "degraded", "running", "draining", "failed", "stopping", "stopped"]
"""`starting`: no child is ready; `degraded`: fewer than the size; `failed`: given up, see `reason`."""


class ChildStats(Struct, frozen=True, kw_only=True):
    """One child."""

    slot: int
    pid: int
    state: Literal["starting", "ready", "busy", "draining", "stopping", "gone"]
    calls: int
    method: str | None
    """What it runs."""


class PoolStats(Struct, frozen=True, kw_only=True):
    """One pool at this moment. Counters start with the pool."""

    name: str
    state: PoolState
    size: int
    ready: int
    busy: int
    queued: int
    calls: int
    """Calls that ended."""
    failures: int
    """Those of them that ended with an error."""
    restarts: int
    """Children started to replace one that died unasked."""
    pids: tuple[int, ...]
    children: tuple[ChildStats, ...]
    reason: str = ""
    """Why the pool has failed."""
