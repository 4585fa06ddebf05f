"""The stored schedule and the fire: the compare-and-set that makes a slot happen once."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

from .jobs import JobRecord
from .missed import Missed
from .timing import Timing

Overlap = Literal["skip", "queue_one", "allow", "cancel_running"]
"""What a slot does while the run before it is unfinished: nothing; wait for its end, one at a time; run beside it; have
it cancelled and wait for its end."""
COALESCING: tuple[Overlap, ...] = ("queue_one", "cancel_running")
"""With these a slot may go into a run that waits already."""
NOTES_LIMIT = 10
"""A schedule's record keeps this many notes, the newest."""


class SlotNote(Struct, frozen=True, omit_defaults=True):
    """What became of a slot, or of several in a row from `slot_ms` on, that was not simply fired, and why."""

    status: str
    """late, skipped, coalesced or missed."""
    slot_ms: int
    at_ms: int
    """When that was found."""
    reason: str
    count: int = 1


class ScheduleRecord(Struct, kw_only=True, omit_defaults=True):
    """A schedule as the store keeps it. `fingerprint` is of what the code defines; a changed one re-anchors."""

    name: str
    timing: Timing
    fingerprint: str
    job: JobRecord
    """What a fire inserts; its id, slot and due time are set per fire."""
    description: str = ""
    facts: dict[str, str] = {}
    """What listings show of the code that defines it: provider, method, target queue and job, run on start."""
    enabled: bool = True
    overlap: Overlap = "skip"
    jitter_ms: int = 0
    missed: Missed = "once"
    from_code: bool = True
    orphaned: bool = False
    """Stored, but no code defines it any more: kept, shown, never fired."""
    paused: bool = False

    next_due_ms: int | None = None
    held_until_ms: int | None = None
    """Until when it is not handed out to be fired; None: until its slot."""
    last_slot_ms: int | None = None
    last_fired_ms: int | None = None
    last_job_id: str | None = None
    last_outcome: str | None = None
    """The kind of the last fire; "late" of one that ran late."""
    fired: int = 0
    """How many slots have run, late ones included."""
    skipped: int = 0
    missed_count: int = 0
    coalesced: int = 0
    """How many slots were taken over by a run that waited already."""
    late: int = 0
    """How many of those that were fired were late."""
    notes: tuple[SlotNote, ...] = ()
    """The last `NOTES_LIMIT` that were not simply fired, the newest last."""

    @property
    def last_reason(self) -> str | None:
        """Why the last slot was late, skipped, coalesced or missed; None where it was simply fired."""
        if self.last_outcome == "fired" or not self.notes or self.notes[-1].status != self.last_outcome:
            return None
        return self.notes[-1].reason


class Fire(Struct, frozen=True, kw_only=True):
    """One slot of one schedule. The store applies it only while `slot_ms` is still the schedule's next due slot.

    The job's own `slot_ms` is the slot that it runs, a later one where earlier slots are passed over. `job` is None
    when this slot runs nothing: it counts as missed, or, where `skipped` says how many slots, as skipped.

    What the store does about a run of the schedule that is unfinished, in the same step: with `overlap` "skip", and
    with any but "allow" where that run shares no unique key with the new one, it inserts nothing. With
    "cancel_running" it cancels those that have begun, as `JobStore.cancel` does, and inserts the new one, which its
    key keeps waiting for their end. With any `overlap`, a new job whose unique key is held by an unfinished one is not
    inserted: with "queue_one" and "cancel_running" the slot is coalesced into a holder that has not begun (which a
    `replace` in its rule lets take the new payload and slot), else it is skipped. With `waits` nothing of all this
    happens: as long as something is in the way, the fire changes nothing and the answer is "busy". A job whose id is
    there already counts as fired."""

    schedule: str
    slot_ms: int
    next_due_ms: int | None
    job: JobRecord | None
    overlap: Overlap = "allow"
    waits: bool = False
    skipped: int = 0
    missed: int = 0
    """How many slots this fire passes over; added to the schedule's `missed_count`."""
    late: bool = False
    """Whether a run of this slot is late."""
    held_until_ms: int | None = None
    """Until when the schedule is not handed out again; None: until its next slot."""
    reasons: Mapping[str, str] = MappingProxyType({})
    """By status, why a slot has it, for the record's notes; "{run}" stands for the run that is in the way."""
    call: str | None = None
    """Made by the caller, new for each fire: a repeat after a lost reply is answered as the first time."""

    @property
    def ran_slot_ms(self) -> int:
        """The slot that this fire is about, which becomes the schedule's `last_slot_ms`."""
        return self.slot_ms if self.job is None or self.job.slot_ms is None else self.job.slot_ms


class Fired(Struct, frozen=True):
    """The store's answer to a fire. `kind` "lost": another process did this slot, or the schedule is gone, paused,
    disabled or orphaned; "busy": the fire waits for a run. Nothing was changed then. `running_job_id` is the job that
    was in the way, or that a coalesced slot went into."""

    kind: Literal["fired", "skipped", "coalesced", "missed", "lost", "busy"]
    running_job_id: str | None = None


def status_of(fire: Fire, kind: str) -> str:
    """What a record says of a fire with this answer, as its last outcome."""
    return "late" if kind == "fired" and fire.late else kind


def notes_of(fire: Fire, answer: Fired, now_ms: int) -> tuple[SlotNote, ...]:
    """What an applied fire adds to the notes of its record."""
    notes = list[SlotNote]()
    if fire.missed:
        notes.append(SlotNote("missed", fire.slot_ms, now_ms, reason_of(fire, "missed"), fire.missed))
    status = status_of(fire, answer.kind)
    if status in ("late", "skipped", "coalesced"):
        count = fire.skipped if fire.job is None else 1
        reason = reason_of(fire, status, answer.running_job_id)
        slot_ms = fire.slot_ms if count > 1 else fire.ran_slot_ms
        notes.append(SlotNote(status, slot_ms, now_ms, reason, count))
    return tuple(notes)


def reason_of(fire: Fire, status: str, running_job_id: str | None = None) -> str:
    """Why a fire's slot has a status."""
    return fire.reasons.get(status, "").replace("{run}", running_job_id or "")
