"""What the relay of the outbox tells."""

from __future__ import annotations

from typing import ClassVar

from .event import Event, Level


class OutboxMoved(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "outbox.moved"
    level: ClassVar[Level] = "debug"
    text: ClassVar[str] = "jobs moved from the outbox: {count}"
    count: int


class OutboxRowRefused(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "outbox.refused"
    level: ClassVar[Level] = "error"
    text: ClassVar[str] = "row {position} of the outbox stays there, it cannot be read: {reason}"
    position: int
    id: str
    reason: str


class OutboxRowsStranded(Event, frozen=True, kw_only=True):
    """Rows of another app have waited for ten minutes: its workers do not run, or the name that they were written with
    is no app's. Told again when there were none meanwhile."""

    wire_name: ClassVar[str] = "outbox.stranded"
    level: ClassVar[Level] = "warning"
    text: ClassVar[str] = "nobody moves {count} rows of app {app} in the outbox {database}: is its name right?"
    app: str
    count: int
    database: str


class OutboxTrouble(Event, frozen=True, kw_only=True):
    """Told once an outage, of the application's database or of the store."""

    wire_name: ClassVar[str] = "outbox.trouble"
    level: ClassVar[Level] = "error"
    text: ClassVar[str] = "the outbox cannot be moved: {error}; trying again"
    error: str


class OutboxRecovered(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "outbox.recovered"
    text: ClassVar[str] = "the outbox {database} is moved again"
    database: str
