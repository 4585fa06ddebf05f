"""Which slots of a schedule are due, and what to do about them: pure decisions over a record and an instant."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from workfleet.ids import derived_id
from workfleet.model.jobs import JobRecord
from workfleet.model.schedules import Fire, ScheduleRecord

GRACE_MS = 60_000
"""With `missed="skip"`, a slot that is later than this is not run any more."""

_COUNT_LIMIT = 10_000


@dataclass(frozen=True)
class Due:
    """The slots that are due: the one to run (None: none, by policy), how many are passed over, and what comes next."""

    slot_ms: int | None
    missed: int
    next_ms: int | None


def fire_time_ms(record: ScheduleRecord) -> int | None:
    """When the next slot is fired: its instant plus a jitter that every process computes alike and that stays in
    the slot."""
    slot = record.next_due_ms
    if slot is None or not record.jitter_ms:
        return slot
    following = record.timing.next_after(slot)
    room = record.jitter_ms if following is None else min(record.jitter_ms, following - slot - 1)
    digest = hashlib.blake2b(f"{record.name}\x1f{slot}".encode(), digest_size=8).digest()
    return slot + int.from_bytes(digest) % (max(room, 0) + 1)


def is_live(record: ScheduleRecord) -> bool:
    """Whether the schedule fires at all."""
    return record.enabled and not record.paused and not record.orphaned and record.next_due_ms is not None


def find_due(record: ScheduleRecord, now_ms: int) -> Due | None:
    """What is due of a schedule at an instant; None when nothing is."""
    first = record.next_due_ms
    fires_at = fire_time_ms(record)
    if first is None or fires_at is None or fires_at > now_ms:
        return None
    passed, latest, following = 0, first, record.timing.next_after(first)
    while following is not None and following <= now_ms and passed < _COUNT_LIMIT:
        passed, latest, following = passed + 1, following, record.timing.next_after(following)
    if following is not None and following <= now_ms:
        following = record.timing.next_after(now_ms)
    if record.missed == "skip" and now_ms - latest > GRACE_MS:
        return Due(None, passed + 1, following)
    return Due(latest, passed, following)


def fire_of(record: ScheduleRecord, due: Due, app: str) -> Fire:
    """The fire that carries out what is due."""
    assert record.next_due_ms is not None
    job = None if due.slot_ms is None else run_of(record, derived_id(app, record.name, due.slot_ms), due.slot_ms)
    return Fire(
        schedule=record.name,
        slot_ms=record.next_due_ms,
        next_due_ms=due.next_ms,
        job=job,
        unless_running=record.overlap == "skip",
        missed=due.missed,
    )


def run_of(record: ScheduleRecord, job_id: str, slot_ms: int | None) -> JobRecord:
    """The job of one run of a schedule."""
    template = record.job
    return JobRecord(
        id=job_id,
        queue=template.queue,
        name=template.name,
        payload=template.payload,
        run=template.run,
        priority=template.priority,
        unique_key=overlap_key(record.name) if record.overlap == "skip" else template.unique_key,
        schedule=record.name,
        slot_ms=slot_ms,
        housekeeping=template.housekeeping,
        tags=template.tags,
        metadata=template.metadata,
    )


def overlap_key(name: str) -> str:
    """The unique key that all runs of a schedule share which must not overlap: fired, triggered and at start alike."""
    return f"schedule {name}"
