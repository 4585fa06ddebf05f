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


class WorkerRecord(Struct, kw_only=True, omit_defaults=True):
    """A worker process of the fleet. `seen_ms` is its last sign of life by the store's clock."""

    id: str
    identity: ProcessIdentity
    queues: tuple[str, ...] = ()
    release: str = ""
    instruction: Instruction | None = None
    """What it was told last."""
    active: int = 0
    """Jobs that it ran at its last sign of life."""
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
