"""How a store hands out due schedules: to one process at a time, and only for a moment, because the fire decides."""

from __future__ import annotations

from msgspec import Struct

from .schedules import ScheduleRecord


class DueRequest(Struct, frozen=True):
    """At most `limit` schedules that are to be fired within `ahead_ms` from now. They are held until `hold_ms` after
    that: about so late is a slot fired by another process when the one that had it died."""

    limit: int
    ahead_ms: int
    hold_ms: int


class DueSchedules(Struct, frozen=True):
    """What was handed out, in the order in which they fire, then by name. `now_ms` is the store's time; `next_ms` is
    when the first of the others is to be handed out, None when there is none."""

    now_ms: int
    records: list[ScheduleRecord]
    next_ms: int | None


class Hold(Struct, frozen=True):
    """A schedule that is not to be handed out before an instant while that slot is its next one."""

    schedule: str
    slot_ms: int
    until_ms: int


def held_until_ms(slot_ms: int | None, until_ms: int | None) -> int | None:
    """What a store keeps of a hold: None for one that ends before the slot."""
    return None if slot_ms is None or until_ms is None or until_ms <= slot_ms else until_ms
