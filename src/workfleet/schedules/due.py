"""Which slots of a schedule are due, and what to do about them: pure decisions over a record and an instant."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from msgspec import structs

from workfleet.ids import derived_id, new_token
from workfleet.model.durations import format_duration
from workfleet.model.jobs import JobRecord, UniqueRule
from workfleet.model.missed import LATE_MS, CatchUp
from workfleet.model.schedules import Fire, Overlap, ScheduleRecord
from workfleet.model.timing import Every

_COUNT_LIMIT = 100_000
"""A day of seconds, which takes a quarter of a second: the loop waits for it."""

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
    """The slots that are due: the one to run (None: none, by policy), how many before it are passed over, and what
    comes next. `skipped`: there is none to run because `skip_on` leaves out so many; they do not count as missed."""

    slot_ms: int | None
    missed: int
    next_ms: int | None
    skipped: int = 0
    waits: bool = False
    """It is run when the run before it has ended, whatever `overlap` says."""
    late_ms: int = field(default=0, compare=False)
    """How long after its time, jitter included, the slot to run is found."""


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
    latest = _latest(record, first, now_ms)
    if isinstance(record.missed, CatchUp):
        return _caught_up(record, record.missed.limit, first, latest, now_ms)
    passed, following = _slots_before(record, first, latest), record.timing.next_after(latest)
    late_ms = now_ms - _fire_time(record, latest)
    if record.missed == "skip" and late_ms > LATE_MS:
        return Due(None, passed + 1, following)
    return Due(latest, passed, following, late_ms=late_ms)


def _latest(record: ScheduleRecord, first: int, until_ms: int) -> int:
    """The last slot whose time to fire has come by an instant, from `first` on, whose time has come."""
    latest = record.timing.previous_before(until_ms + 1)
    if latest is None or latest <= first:
        return first
    if _fire_time(record, latest) > until_ms:
        # Only the last slot can still wait for its jitter, because a jitter never leaves its slot.
        return max(record.timing.previous_before(latest) or first, first)
    return latest


def _caught_up(record: ScheduleRecord, limit: int, first: int, latest: int, now_ms: int) -> Due:
    """What is due of a schedule that catches up: what is beyond the limit, which is passed over at once, then one slot
    after the other.

    A slot waits for its turn while the schedule is behind: where a further one is due, it is late itself, it was due
    already when the one before it was fired, or others were passed over before it. Else it is a slot on time, with
    which nothing is caught up."""
    count = _slots_before(record, first, latest) + 1
    if count > limit:
        slot = latest
        for _ in range(limit - 1):
            slot = record.timing.previous_before(slot) or first
        return Due(None, count - limit, slot)
    fires_at, fired_ms = _fire_time(record, first), record.last_fired_ms
    late_ms, was_due = now_ms - fires_at, fired_ms is not None and fires_at <= fired_ms
    behind = latest != first or late_ms > LATE_MS or was_due or record.last_outcome == "missed"
    return Due(first, 0, record.timing.next_after(first), waits=behind, late_ms=late_ms)


def without_skipped(record: ScheduleRecord, due: Due, skips: Callable[[int], bool]) -> Due:
    """What is due where a function says which slots are skipped: the last one that is not; those after it are due next,
    and then nothing but skipped. Where slots are caught up with, each is judged in its turn."""
    slot, first = due.slot_ms, record.next_due_ms
    if slot is None or first is None or not skips(slot):
        return due
    if due.waits:
        return replace(due, slot_ms=None, skipped=1)
    left_out, count = slot, 1
    before = record.timing.previous_before(left_out)
    while before is not None and before >= first and count < _COUNT_LIMIT and skips(before):
        left_out, count = before, count + 1
        before = record.timing.previous_before(left_out)
    if before is None or before < first or count >= _COUNT_LIMIT:
        return Due(None, 0, due.next_ms, skipped=count)
    missed, late_ms = max(due.missed - count, 0), due.late_ms + slot - before
    if record.missed == "skip" and late_ms > LATE_MS:
        return Due(None, missed + 1, left_out)
    return replace(due, slot_ms=before, missed=missed, next_ms=left_out, late_ms=late_ms)


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
    job = None
    if due.slot_ms is not None:
        job = run_of(record, derived_id(app, record.name, due.slot_ms), due.slot_ms)
        if due.waits:
            job.unique = structs.replace(job.unique, on_conflict="keep")
    return Fire(
        schedule=record.name,
        slot_ms=record.next_due_ms,
        next_due_ms=due.next_ms,
        job=job,
        overlap=record.overlap,
        waits=due.waits and record.overlap != "allow",
        skipped=due.skipped,
        missed=due.missed,
        late=due.late_ms > LATE_MS,
        reasons=_reasons(record, due),
        call=new_token(),
    )


_IN_THE_WAY = {
    "skip": {"skipped": "its run {run} is not finished"},
    "queue_one": {"skipped": "its run {run} is not finished", "coalesced": "the run {run} waits already"},
    "cancel_running": {
        "skipped": "its run {run} is not finished",
        "coalesced": "the run {run}, which has not begun, runs this slot in place of its own",
    },
}
_RUNS_NONE = {
    "once": 'it was not fired in time, and missed="once" runs only the last',
    "skip": 'it was not fired in time, and missed="skip" runs none that is late',
}


def _reasons(record: ScheduleRecord, due: Due) -> dict[str, str]:
    """Why the slots of a fire have which status, whatever the store makes of it."""
    reasons = dict(_IN_THE_WAY.get(record.overlap, {}))
    if due.skipped:
        reasons["skipped"] = "skip_on leaves out its date"
    if due.missed:
        asked = record.missed
        told = (
            f"it was not fired in time, and missed={asked} runs only the last {asked.limit}"
            if isinstance(asked, CatchUp)
            else _RUNS_NONE[asked]
        )
        reasons["missed"] = told
    if due.late_ms > LATE_MS:
        reasons["late"] = f"it was fired {format_duration(due.late_ms // 1000 * 1000)} after its time"
    return reasons


_RULES: dict[Overlap, UniqueRule] = {
    "skip": UniqueRule(),
    "queue_one": UniqueRule("started", exclusive=True),
    "cancel_running": UniqueRule("started", exclusive=True),
}
_NEWEST = UniqueRule("started", on_conflict="replace", exclusive=True)


def run_of(record: ScheduleRecord, job_id: str, slot_ms: int | None) -> JobRecord:
    """The job of one run of a schedule. One without a slot (a trigger, a run at start) takes no slot's place."""
    template, rule = record.job, _RULES.get(record.overlap)
    if record.overlap == "cancel_running" and slot_ms is not None:
        rule = _NEWEST
    return JobRecord(
        id=job_id,
        queue=template.queue,
        name=template.name,
        payload=template.payload,
        run=template.run,
        priority=template.priority,
        lifo=template.lifo,
        delay_ms=template.delay_ms,
        unique_key=template.unique_key if rule is None else overlap_key(record.name),
        unique=template.unique if rule is None else rule,
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
