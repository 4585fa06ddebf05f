"""What happens to schedules."""

from __future__ import annotations

from typing import ClassVar

from .event import Event, Level


class ScheduleFired(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "schedule.fired"
    level: ClassVar[Level] = "debug"
    text: ClassVar[str] = "schedule {schedule} fired"
    schedule: str
    slot_ms: int
    late_ms: int
    job_id: str | None = None


class ScheduleLate(Event, frozen=True, kw_only=True):
    """A slot was fired that is late; `schedule.fired` tells of it too."""

    wire_name: ClassVar[str] = "schedule.late"
    level: ClassVar[Level] = "warning"
    text: ClassVar[str] = "schedule {schedule} runs a slot late: {reason}"
    schedule: str
    slot_ms: int
    reason: str


class ScheduleSkipped(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "schedule.skipped"
    level: ClassVar[Level] = "warning"
    text: ClassVar[str] = "schedule {schedule} skipped a slot: {reason}"
    schedule: str
    slot_ms: int
    reason: str
    count: int = 1
    """How many slots in a row, of which `slot_ms` is the first."""


class ScheduleCoalesced(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "schedule.coalesced"
    level: ClassVar[Level] = "info"
    text: ClassVar[str] = "schedule {schedule}: a slot goes into a run that waits: {reason}"
    schedule: str
    slot_ms: int
    reason: str
    job_id: str | None = None


class ScheduleMissed(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "schedule.missed"
    level: ClassVar[Level] = "warning"
    text: ClassVar[str] = "schedule {schedule} missed slots: {count}"
    schedule: str
    slot_ms: int
    count: int
    reason: str = ""


class ScheduleUnusable(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "schedule.unusable"
    level: ClassVar[Level] = "error"
    text: ClassVar[str] = "schedule {schedule} cannot be fired by this process: {error}"
    schedule: str
    error: str


class ScheduleFault(Event, frozen=True, kw_only=True):
    """A function that a schedule's code gave has failed."""

    wire_name: ClassVar[str] = "schedule.fault"
    level: ClassVar[Level] = "error"
    text: ClassVar[str] = "schedule {schedule}: {error}"
    schedule: str
    error: str
