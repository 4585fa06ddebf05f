"""A schedule's definition as stores keep it: without what has a field of its own beside it."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from operator import attrgetter
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
_state = attrgetter(*_BESIDE)
_NOTHING = tuple(_BESIDE.values())
_encoder = msgspec.json.Encoder()


def definition_of(record: ScheduleRecord) -> bytes:
    """The JSON of what the code, or whoever added it, said of a schedule."""
    state = _state(record)
    if state != _NOTHING:
        record = copy(record)
        for (name, nothing), value in zip(_BESIDE.items(), state, strict=True):
            if value is not nothing:
                setattr(record, name, nothing)
    return _encoder.encode(record)
