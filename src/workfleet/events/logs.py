"""What happens to the destinations of log lines. Only the log says it: whoever listens would be asked for each line."""

from __future__ import annotations

from typing import ClassVar

from .event import Event, Level


class LogFailed(Event, frozen=True, kw_only=True):
    """Told once until it works again; of a destination of the application's own, once a minute at the most."""

    wire_name: ClassVar[str] = "log.failed"
    level: ClassVar[Level] = "error"
    text: ClassVar[str] = "log destination {destination} fails, and has lost {lost} lines: {error}"
    destination: str
    error: str
    lost: int


class LogDropped(Event, frozen=True, kw_only=True):
    """Told once until it has caught up."""

    wire_name: ClassVar[str] = "log.dropped"
    level: ClassVar[Level] = "warning"
    text: ClassVar[str] = "log destination {destination} does not keep up: {waiting} lines wait, others are dropped"
    destination: str
    waiting: int


class LogRecovered(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "log.recovered"
    level: ClassVar[Level] = "warning"
    text: ClassVar[str] = "log destination {destination} works again: {lost} lines were lost"
    destination: str
    lost: int
