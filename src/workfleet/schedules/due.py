"""Which slots of a schedule are due, and what to do about them: pure decisions over a record and an instant."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from workfleet.ids import derived_id, new_token
from workfleet.model.jobs import JobRecord, UniqueRule
from workfleet.model.schedules import Fire, ScheduleRecord
from workfleet.model.timing import Every

GRACE_MS = 60_000
"""With `missed="skip"`, a slot that is later than this is not run any more."""

_COUNT_LIMIT = 10_000


_AHEAD_MS = 3_600_000
"""How far ahead of the next slot a stored one may be before it is taken for the mark of a clock that was wrong."""


def lies_in_a_wrong_future(record: ScheduleRecord, now_ms: int) -> bool:
    """Whether the stored next slot is beyond what the schedule itself would choose, by more than clocks differ: the
    store's clock was ahead when it was computed, and the schedule would stand still until that time comes."""
    if record.next_due_ms is None:
        return False
    following = record.timing.next_after(now_ms + _AHEAD_MS)
    return following is not None and following < record.next_due_ms


@dataclass(frozen=True)
class Due:
    """The slots that are due: the one to run (None: none, by policy), how many are passed over, and what comes next.
    `skipped`: there is none to run because `skip_on` says so."""

    slot_ms: int | None
    missed: int
    next_ms: int | None
    skipped: bool = False


def fire_time_ms(record: ScheduleRecord) -> int | None:
    """When the next slot is fired: its instant plus a jitter that every process computes alike and that stays in
    the slot. Raises CronError for a stored expression that this machine cannot use."""
    return None if record.next_due_ms is None else _fire_time(record, record.next_due_ms)


def _fire_time(record: ScheduleRecord, slot: int) -> int:
    if not record.jitter_ms:
        return slot
    following = record.timing.next_after(slot)
    room = record.jitter_ms if following is None else min(record.jitter_ms, following - slot - 1)
    digest = hashlib.blake2b(f"{record.name}\x1f{slot}".encode(errors="replace"), digest_size=8).digest()
    return slot + int.from_bytes(digest) % (max(room, 0) + 1)


def is_live(record: ScheduleRecord) -> bool:
    """Whether the schedule fires at all."""
    return record.enabled and not record.paused and not record.orphaned and record.next_due_ms is not None


def find_due(record: ScheduleRecord, now_ms: int) -> Due | None:
    """What is due of a schedule at an instant; None when nothing is. A slot is due when its time to fire has come,
    jitter included. Raises CronError as `fire_time_ms`."""
    first = record.next_due_ms
    if first is None or _fire_time(record, first) > now_ms:
        return None
    latest = record.timing.previous_before(now_ms + 1)
    if latest is None or latest <= first:
        latest = first
    elif _fire_time(record, latest) > now_ms:
        # Only the last slot can still wait for its jitter, because a jitter never leaves its slot.
        latest = max(record.timing.previous_before(latest) or first, first)
    passed, following = _slots_before(record, first, latest), record.timing.next_after(latest)
    if record.missed == "skip" and now_ms - _fire_time(record, latest) > GRACE_MS:
        return Due(None, passed + 1, following)
    return Due(latest, passed, following)


def without_skipped(record: ScheduleRecord, due: Due, skips: Callable[[int], bool]) -> Due:
    """What is due where a function says which slots are skipped: the last one that is not."""
    slot, passed = due.slot_ms, 0
    while slot is not None and skips(slot):
        slot, passed = record.timing.previous_before(slot), passed + 1
        if slot is None or record.next_due_ms is None or slot < record.next_due_ms or passed > _COUNT_LIMIT:
            return Due(None, 0, due.next_ms, skipped=True)
    return replace(due, slot_ms=slot, missed=max(due.missed - passed, 0))


def _slots_before(record: ScheduleRecord, first: int, latest: int) -> int:
    """How many slots there are from the first up to the latest, without that one; at most `_COUNT_LIMIT` for what has
    to be counted one by one."""
    timing = record.timing
    following = timing.next_after(first)
    if isinstance(timing, Every) and timing.bounds is None and following is not None:
        # The first may be off the grid: an older definition may have left it behind.
        return (latest - following) // timing.every_ms + 1 if latest > first else 0
    count, slot = 0, first
    while slot < latest and count < _COUNT_LIMIT:
        following = timing.next_after(slot)
        if following is None:
            break
        count, slot = count + 1, following
    return count


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
        skipped=due.skipped,
        missed=due.missed,
        call=new_token(),
    )


def run_of(record: ScheduleRecord, job_id: str, slot_ms: int | None) -> JobRecord:
    """The job of one run of a schedule."""
    template, skips = record.job, record.overlap == "skip"
    return JobRecord(
        id=job_id,
        queue=template.queue,
        name=template.name,
        payload=template.payload,
        run=template.run,
        priority=template.priority,
        lifo=template.lifo,
        delay_ms=template.delay_ms,
        unique_key=overlap_key(record.name) if skips else template.unique_key,
        unique=UniqueRule() if skips else template.unique,
        group=template.group,
        expires_after_ms=template.expires_after_ms,
        keep=template.keep,
        schedule=record.name,
        slot_ms=slot_ms,
        housekeeping=template.housekeeping,
        tags=template.tags,
        metadata=template.metadata,
    )


def overlap_key(name: str) -> str:
    """The unique key that all runs of a schedule share which must not overlap: fired, triggered and at start alike."""
    return f"schedule {name}"
