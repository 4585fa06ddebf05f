"""Facts about worker processes, and who holds which lock."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class ProcessIdentity(Struct, frozen=True):
    """What tells one process from another on a host, across pid reuse and reboots."""

    host: str
    boot_id: str
    pid: int
    started: str
    """The kernel's start time of the process, as text; only compared for equality."""


Instruction = Literal["quiet", "stop", "recycle"]
"""What an operator may tell a worker: claim no more; drain and end; drain and be started anew."""


class ChildReport(Struct, kw_only=True, frozen=True, omit_defaults=True):
    """A child of a pool, as its worker saw it last."""

    slot: int | None = None
    """Its place; None: it waits for one."""
    pid: int
    state: str
    calls: int = 0
    method: str | None = None
    memory_bytes: int | None = None
    cpu_percent: float | None = None
    """Share of one processor lately."""
    age_ms: int = 0
    restarts: int = 0
    """How often a child of this place has died unasked."""
    last_exit: str | None = None
    """How the child before it ended, in words."""


class PoolReport(Struct, kw_only=True, frozen=True, omit_defaults=True):
    """A pool of a worker, as the worker saw it last. Counters start with the pool."""

    name: str
    state: str
    size: int
    isolation: str = "process"
    min_size: int | None = None
    max_size: int | None = None
    """Between these it scales itself; None: it does not."""
    ready: int = 0
    busy: int = 0
    queued: int = 0
    waiting: tuple[str, ...] = ()
    """The jobs whose calls are queued, the longest waiting first; of very many only the first."""
    calls: int = 0
    failures: int = 0
    restarts: int = 0
    cpu: str = ""
    """How the processor is limited, in words; "": it is not."""
    reason: str = ""
    """Why it has failed."""
    children: tuple[ChildReport, ...] = ()
    unlisted: int = 0
    """Children that are not among these, since they are too many."""


PoolVerb = Literal["scale", "recycle"]


class PoolOrder(Struct, kw_only=True, frozen=True, omit_defaults=True):
    """What an operator wants of one pool of a worker. It is carried out once, however often it is heard."""

    id: str
    pool: str
    verb: PoolVerb
    size: int | None = None
    """Of "scale"."""


class WorkerRecord(Struct, kw_only=True, omit_defaults=True):
    """A worker process of the fleet. `seen_ms` is its last sign of life by the store's clock."""

    id: str
    identity: ProcessIdentity
    queues: tuple[str, ...] = ()
    handlers: dict[str, tuple[str, ...]] = {}
    """The names that it knows on each queue; of none, where it was written by a version that did not say."""
    release: str = ""
    instruction: Instruction | None = None
    """What it was told last."""
    active: int = 0
    """Jobs that it ran at its last sign of life."""
    pools: tuple[PoolReport, ...] = ()
    """Its pools at its last sign of life."""
    orders: tuple[PoolOrder, ...] = ()
    """What it has not carried out yet, the oldest first."""
    started_ms: int = 0
    seen_ms: int = 0


class LockGrant(Struct, frozen=True):
    """A lock that was acquired: `fence` grows across owners and restarts, `expires_ms` is store time."""

    name: str
    owner: str
    fence: int
    expires_ms: int


class LockHeld(Struct, frozen=True):
    """A lock that somebody else holds."""

    name: str
    owner: str
    expires_ms: int
