"""A schedule's definition as stores keep it: without what has a field of its own beside it."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from types import MappingProxyType

import msgspec

from workfleet.model.schedules import ScheduleRecord, SlotNote

_NO_NOTES: tuple[SlotNote, ...] = ()
_BESIDE: Mapping[str, object] = MappingProxyType(
    {
        "paused": False,
        "orphaned": False,
        "next_due_ms": None,
        "held_until_ms": None,
        "last_slot_ms": None,
        "last_fired_ms": None,
        "last_job_id": None,
        "last_outcome": None,
        "fired": 0,
        "skipped": 0,
        "missed_count": 0,
        "coalesced": 0,
        "late": 0,
        "notes": _NO_NOTES,
    }
)
_encoder = msgspec.json.Encoder()


def definition_of(record: ScheduleRecord) -> bytes:
    """The JSON of what the code, or whoever added it, said of a schedule."""
    plain = copy(record)
    for name, nothing in _BESIDE.items():
        setattr(plain, name, nothing)
    return _encoder.encode(plain)
