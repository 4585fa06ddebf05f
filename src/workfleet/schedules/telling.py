"""What is told of a fire that was applied: one event for each thing that became of its slots."""

from __future__ import annotations

from collections.abc import Iterator

from workfleet.events import (
    Event,
    JobEnqueued,
    ScheduleCoalesced,
    ScheduleFired,
    ScheduleLate,
    ScheduleMissed,
    ScheduleSkipped,
)
from workfleet.model.jobs import JobRecord
from workfleet.model.schedules import Fire, Fired, reason_of


def told(fire: Fire, answer: Fired, now_ms: int) -> Iterator[Event]:
    """The events of a fire that changed something."""
    name, slot, run = fire.schedule, fire.ran_slot_ms, answer.running_job_id
    if fire.missed:
        why = reason_of(fire, "missed")
        yield ScheduleMissed(schedule=name, slot_ms=fire.slot_ms, count=fire.missed, reason=why)
    if answer.kind == "skipped":
        count = 1 if fire.job is not None else fire.skipped
        first = slot if count == 1 else fire.slot_ms
        yield ScheduleSkipped(schedule=name, slot_ms=first, reason=reason_of(fire, "skipped", run), count=count)
    elif answer.kind == "coalesced":
        yield ScheduleCoalesced(schedule=name, slot_ms=slot, reason=reason_of(fire, "coalesced", run), job_id=run)
    elif answer.kind == "fired" and fire.job is not None:
        yield ScheduleFired(schedule=name, slot_ms=slot, late_ms=max(now_ms - slot, 0), job_id=fire.job.id)
        if not fire.job.housekeeping:
            yield enqueued(fire.job)
        if fire.late:
            yield ScheduleLate(schedule=name, slot_ms=slot, reason=reason_of(fire, "late"))


def enqueued(job: JobRecord) -> JobEnqueued:
    """The event of a run's job that the store has added."""
    return JobEnqueued(id=job.id, name=job.name, queue=job.queue, created=True)
