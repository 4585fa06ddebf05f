"""`ScheduleInfo`: a stored schedule as users and programs see it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from workfleet.model.bounds import Bounds
from workfleet.model.durations import format_duration
from workfleet.model.schedules import ScheduleRecord
from workfleet.model.timing import CronTiming, Every

from .overdue import overdue_ms


@dataclass(frozen=True)
class ScheduleInfo:
    """A schedule as it is shown. `type` is cron, interval, once or manual; `target` is inline or queue."""

    name: str
    provider: str | None
    method: str | None
    description: str
    enabled: bool
    run_on_start: str | None
    type: str
    target: str
    cron: str | None
    interval: str | None
    timezone: str | None
    queue: str
    queue_job: str
    running: bool
    next_due: datetime | None
    last_slot: datetime | None
    last_outcome: str | None
    paused: bool
    orphaned: bool
    fired: int
    """Slots that have run, late ones included; and so on: how many had which status."""
    skipped: int
    missed: int
    coalesced: int
    late: int
    last_reason: str | None
    """Why the last slot was late, skipped, coalesced or missed."""
    from_code: bool
    """Whether code defines it; False: it was added at run time."""
    offset: str | None
    start: datetime | None
    end: datetime | None
    skip_on: tuple[str, ...]
    """Local dates that are left out, or the name of the function that says so of a date."""
    dst_gap: str | None
    dst_overlap: str | None
    overlap: str
    missed_policy: str
    """What becomes of slots that passed; `missed` counts them."""
    jitter: str | None
    expires: str | None
    """A run that waits longer than this is not started any more."""
    overdue: timedelta | None
    """How long ago its due slot should have fired, jitter included; None where none should have, and while it
    waits for the end of its run."""

    @property
    def id(self) -> str:
        """The schedule's name: it is its identity."""
        return self.name


def info_of(record: ScheduleRecord, *, running: bool, now_ms: int) -> ScheduleInfo:
    """What is shown of a record at an instant of the store's clock."""
    facts, when = record.facts, record.timing
    bounds: Bounds | None = getattr(when, "bounds", None)
    cron = when if isinstance(when, CronTiming) else None
    every = when if isinstance(when, Every) else None
    asked, expires_ms = facts.get("skip_on"), record.job.expires_after_ms
    dates: tuple[str, ...] = bounds.skip_on if bounds else ()
    late_ms = overdue_ms(record, now_ms)
    return ScheduleInfo(
        name=record.name,
        provider=facts.get("provider"),
        method=facts.get("method"),
        description=record.description,
        enabled=record.enabled,
        run_on_start=facts.get("run_on_start"),
        type=when.kind,
        target=facts.get("target", "inline"),
        cron=cron.expression if cron else None,
        interval=format_duration(every.every_ms) if every else None,
        timezone=cron.timezone if cron else bounds.timezone if bounds and dates else None,
        queue=facts.get("target_queue", record.job.queue),
        queue_job=facts.get("target_job", record.job.name),
        running=running,
        next_due=instant(record.next_due_ms if record.enabled and not record.orphaned else None),
        last_slot=instant(record.last_slot_ms),
        last_outcome=record.last_outcome,
        paused=record.paused,
        orphaned=record.orphaned,
        fired=record.fired,
        skipped=record.skipped,
        missed=record.missed_count,
        coalesced=record.coalesced,
        late=record.late,
        last_reason=record.last_reason,
        from_code=record.from_code,
        offset=format_duration(every.offset_ms) if every and every.offset_ms else None,
        start=instant(bounds.start_ms) if bounds else None,
        end=instant(bounds.end_ms) if bounds else None,
        skip_on=(asked,) if asked else dates,
        dst_gap=cron.dst_gap if cron else None,
        dst_overlap=cron.dst_overlap if cron else None,
        overlap=record.overlap,
        missed_policy=str(record.missed),
        jitter=format_duration(record.jitter_ms) if record.jitter_ms else None,
        expires=None if expires_ms is None else format_duration(expires_ms),
        overdue=timedelta(milliseconds=late_ms) if late_ms else None,
    )


def instant(ms: int | None) -> datetime | None:
    """A stored instant as users get it."""
    return None if ms is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
