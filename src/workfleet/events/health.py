"""What happens to health, the store and the metrics."""

from __future__ import annotations

from typing import ClassVar

from .event import Event, Level


class HealthChanged(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "health.changed"
    level: ClassVar[Level] = "warning"
    text: ClassVar[str] = "health is now {status}: {reason}"
    status: str
    reason: str

    def severity(self) -> Level:
        if self.status == "healthy":
            return "info"
        return "error" if self.status == "unhealthy" else "warning"


class StoreTrouble(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "store.trouble"
    level: ClassVar[Level] = "error"
    text: ClassVar[str] = "{what}: {error}; trying again"
    what: str
    error: str


class StoreRestored(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "store.restored"
    level: ClassVar[Level] = "error"
    text: ClassVar[str] = (
        "the store has lost what it kept, jobs included; schedules of the code brought back: {schedules}"
    )
    schedules: int


class StoreWarned(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "store.warned"
    level: ClassVar[Level] = "warning"
    text: ClassVar[str] = "{said}. {advice}"
    check: str
    said: str
    advice: str


class MetricsDropped(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "metrics.dropped"
    level: ClassVar[Level] = "warning"
    text: ClassVar[str] = "{count} metric rows were not written: {error}"
    count: int
    error: str


class MetricsUnavailable(Event, frozen=True, kw_only=True):
    """Told once, until the metric store could be used again."""

    wire_name: ClassVar[str] = "metrics.unavailable"
    level: ClassVar[Level] = "error"
    text: ClassVar[str] = (
        "metrics cannot be kept in {store} ({reason}): jobs go on, and metrics are in memory until they can. It holds "
        "only metrics: a file may be moved away"
    )
    store: str
    reason: str


class MetricsFileFailed(Event, frozen=True, kw_only=True):
    """Told once, until it could be written again."""

    wire_name: ClassVar[str] = "metrics.file_failed"
    level: ClassVar[Level] = "error"
    text: ClassVar[str] = "the metrics file {path} cannot be written ({reason}); trying again"
    path: str
    reason: str
