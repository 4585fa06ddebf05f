"""What happens to locks."""

from __future__ import annotations

from typing import ClassVar

from .event import Event, Level


class LockAcquired(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "lock.acquired"
    level: ClassVar[Level] = "debug"
    text: ClassVar[str] = "lock {lock} acquired"
    lock: str
    fence: int


class LockBusySkipped(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "lock.busy"
    text: ClassVar[str] = "lock {lock} is held by {holder}: {name} does not run"
    lock: str
    holder: str
    name: str


class LockLostEvent(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "lock.lost"
    level: ClassVar[Level] = "error"
    text: ClassVar[str] = "lock {lock} was lost while its body ran"
    lock: str
