"""The stored schedule and the fire: the compare-and-set that makes a slot happen once."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from .jobs import JobRecord
from .timing import Timing

Overlap = Literal["skip", "allow"]
FireKind = Literal["fired", "skipped", "missed"]


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
    missed: Literal["once", "skip"] = "once"
    from_code: bool = True
    orphaned: bool = False
    """Stored, but no code defines it any more: kept, shown, never fired."""
    paused: bool = False

    next_due_ms: int | None = None
    last_slot_ms: int | None = None
    last_fired_ms: int | None = None
    last_job_id: str | None = None
    last_outcome: str | None = None
    """The kind of the last fire."""
    fired: int = 0
    skipped: int = 0
    missed_count: int = 0


class Fire(Struct, frozen=True, kw_only=True):
    """One slot of one schedule. The store applies it only while `slot_ms` is still the schedule's next due slot.

    The job's own `slot_ms` is the slot that it runs, a later one where earlier slots are passed over. `job` is None
    when this slot runs nothing (`kind` "missed", or "skipped"). With `unless_running` the store, in the same step,
    inserts nothing while the job of the last fire is unsettled, and records the slot as skipped; so it does when an
    unfinished job has the new one's unique key. A job whose id is there already counts as fired. Without a job,
    `skipped` says that the slot counts as skipped and not as missed.
    """

    schedule: str
    slot_ms: int
    next_due_ms: int | None
    job: JobRecord | None
    unless_running: bool = False
    skipped: bool = False
    missed: int = 0
    """How many slots this fire passes over; added to the schedule's `missed_count`."""
    call: str | None = None
    """Made by the caller, new for each fire: a repeat after a lost reply is answered as the first time."""

    @property
    def ran_slot_ms(self) -> int:
        """The slot that this fire is about, which becomes the schedule's `last_slot_ms`."""
        return self.slot_ms if self.job is None or self.job.slot_ms is None else self.job.slot_ms


class Fired(Struct, frozen=True):
    """The store's answer to a fire. `kind` "lost": another process did this slot, or the schedule is gone, paused,
    disabled or orphaned; nothing was changed. `running_job_id` is the job that a skipped one would have overlapped."""

    kind: Literal["fired", "skipped", "missed", "lost"]
    running_job_id: str | None = None
