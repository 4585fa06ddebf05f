"""The next slots of stored schedules, merged in their order, as people and programs read them."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ..model.bounds import Bounds
from ..model.cron.faults import CronError
from ..model.cron.preview import occurrences
from ..model.durations import format_duration
from ..model.schedules import ScheduleRecord
from ..model.timing import At, CronTiming, Every
from ..schedules.due import is_live
from .documents import instant
from .failures import tell
from .output import at, count, near

SLOT_TITLES = ("DUE", "LOCAL", "IN", "SCHEDULE", "NOTE")


@dataclass(frozen=True, order=True)
class Slot:
    """One slot. `local` is the wall clock of the schedule's zone, `note` what daylight saving or jitter does."""

    at_ms: int
    schedule: str
    local: str = ""
    note: str | None = None

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {"schedule": self.schedule, "due": instant(self.at_ms), "local": self.local or None, "note": self.note}

    def row(self, now_ms: int) -> list[str]:
        """A row under `SLOT_TITLES`."""
        return [at(self.at_ms), self.local, near(self.at_ms, now_ms), self.schedule, self.note or ""]


def upcoming(records: Sequence[ScheduleRecord], wanted: int) -> list[Slot]:
    """The next slots of those that fire by themselves. One whose timing cannot be read is told of and left out."""
    return list(islice(heapq.merge(*(_slots(record) for record in records if is_live(record))), wanted))


def when(record: ScheduleRecord) -> str:
    """When a schedule is due, in words."""
    timing = record.timing
    if isinstance(timing, CronTiming):
        return f"cron {timing.expression} ({timing.timezone}){_bounds(timing.bounds)}"
    if isinstance(timing, Every):
        offset = f" at +{format_duration(timing.offset_ms)}" if timing.offset_ms else ""
        return f"every {format_duration(timing.every_ms)}{offset}{_bounds(timing.bounds)}"
    return f"once at {at(timing.at_ms)}" if isinstance(timing, At) else "when triggered"


def _bounds(bounds: Bounds | None) -> str:
    if bounds is None:
        return ""
    start = f" from {at(bounds.start_ms)}" if bounds.start_ms is not None else ""
    end = f" until {at(bounds.end_ms)}" if bounds.end_ms is not None else ""
    days = f" without {count(len(bounds.skip_on), 'date')}" if bounds.skip_on else ""
    return f"{start}{end}{days}"


def _slots(record: ScheduleRecord) -> Iterator[Slot]:
    due, said = record.next_due_ms, _said(record)
    try:
        while due is not None:
            yield (
                _cron_slot(record, record.timing, due, said)
                if isinstance(record.timing, CronTiming)
                else Slot(due, record.name, "", said)
            )
            due = record.timing.next_after(due)
    except CronError as error:
        tell(f"schedule {record.name}: {error}")


def _cron_slot(record: ScheduleRecord, timing: CronTiming, due: int, said: str | None) -> Slot:
    found = occurrences(timing.cron, due - 1, 1)
    # A slot that an older definition left behind is not in the expression.
    if not found or found[0].at_ms != due:
        return Slot(due, record.name, "", said)
    notes = [note for note in (found[0].note, said) if note]
    return Slot(due, record.name, found[0].local, "; ".join(notes) or None)


def _said(record: ScheduleRecord) -> str | None:
    """What is true of every slot."""
    jitter = f"up to {format_duration(record.jitter_ms)} later" if record.jitter_ms else ""
    skips = f"unless {record.facts['skip_on']} skips its date" if "skip_on" in record.facts else ""
    return "; ".join(filter(None, (jitter, skips))) or None
