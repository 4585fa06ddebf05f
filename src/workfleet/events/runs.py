"""What happens to those that are told of runs: the run ledger and the application's listeners."""

from __future__ import annotations

from typing import ClassVar

from .event import Event, Level


class LedgerDropped(Event, frozen=True, kw_only=True):
    """Rows that could neither be written nor kept any longer."""

    wire_name: ClassVar[str] = "ledger.dropped"
    level: ClassVar[Level] = "warning"
    text: ClassVar[str] = "rows of the run ledger were lost: {count} ({error})"
    count: int
    error: str


class ListenerFailed(Event, frozen=True, kw_only=True):
    """A listener raised, or took longer than it may."""

    wire_name: ClassVar[str] = "listener.failed"
    level: ClassVar[Level] = "error"
    text: ClassVar[str] = "listener {listener} failed at a {kind}: {error}"
    listener: str
    kind: str
    error: str


class ListenerDropped(Event, frozen=True, kw_only=True):
    """A listener missed events because it did not keep up, or does not return."""

    wire_name: ClassVar[str] = "listener.dropped"
    level: ClassVar[Level] = "error"
    text: ClassVar[str] = "listener {listener} was not told of {count} events: {error}"
    listener: str
    count: int
    error: str
