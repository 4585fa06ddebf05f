"""Schedules and their fires, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import structs

from workfleet.model.schedules import Fire, Fired, ScheduleRecord

from ..wakes import SCHEDULES, Wakes
from .adding import add
from .book import Book


@dataclass
class _LastFire:
    """What a repeated call is answered from."""

    call: str | None
    slot_ms: int
    answer: Fired


class MemorySchedules:
    """A `ScheduleStore`."""

    def __init__(self, book: Book, wakes: Wakes) -> None:
        self._book, self._wakes = book, wakes
        self._records: dict[str, ScheduleRecord] = {}
        self._last: dict[str, _LastFire] = {}
        self.revision = 0
        """Raised by every change of what is defined."""

    async def merge(self, defined: Sequence[ScheduleRecord]) -> list[ScheduleRecord]:
        names = {record.name for record in defined}
        for record in defined:
            there = self._records.get(record.name)
            if there is not None and there.from_code and there.fingerprint == record.fingerprint:
                there.orphaned = False
            else:
                self._set(record, there)
        for there in self._records.values():
            if there.from_code and there.name not in names:
                there.orphaned = True
        self._changed()
        return await self.all()

    async def put(self, record: ScheduleRecord, *, replace: bool) -> bool:
        there = self._records.get(record.name)
        if there is not None and not replace:
            return False
        self._set(record, there)
        self._changed()
        return True

    async def remove(self, name: str) -> bool:
        self._last.pop(name, None)
        removed = self._records.pop(name, None)
        self._changed()
        return removed is not None

    async def set_paused(self, name: str, *, paused: bool) -> bool:
        there = self._records.get(name)
        if there is None:
            return False
        there.paused = paused
        self._changed()
        return True

    async def all(self) -> list[ScheduleRecord]:
        return [structs.replace(self._records[name]) for name in sorted(self._records)]

    async def fire(self, fires: Sequence[Fire]) -> list[Fired]:
        return [self._fire(fire) for fire in fires]

    async def wait(self, timeout_ms: int) -> bool:
        return await self._wakes.wait([SCHEDULES], timeout_ms)

    def _changed(self) -> None:
        self.revision += 1
        self._wakes.announce([SCHEDULES])

    def _set(self, record: ScheduleRecord, there: ScheduleRecord | None) -> None:
        """Store a definition. What the fleet did under that name so far stays."""
        if there is None:
            self._records[record.name] = structs.replace(record)
            return
        self._records[record.name] = structs.replace(
            record,
            paused=there.paused,
            last_slot_ms=there.last_slot_ms,
            last_fired_ms=there.last_fired_ms,
            last_job_id=there.last_job_id,
            last_outcome=there.last_outcome,
            fired=there.fired,
            skipped=there.skipped,
            missed_count=there.missed_count,
        )

    def _fire(self, fire: Fire) -> Fired:
        record, last = self._records.get(fire.schedule), self._last.get(fire.schedule)
        if last is not None and fire.call is not None and (fire.call, fire.slot_ms) == (last.call, last.slot_ms):
            return last.answer
        if record is None or record.next_due_ms != fire.slot_ms:
            return Fired("lost")
        if record.paused or record.orphaned or not record.enabled:
            return Fired("lost")
        answer = self._run(fire, record)
        record.next_due_ms, record.last_slot_ms, record.last_outcome = fire.next_due_ms, fire.ran_slot_ms, answer.kind
        record.missed_count += fire.missed
        if answer.kind == "fired":
            record.fired += 1
        elif answer.kind == "skipped":
            record.skipped += 1
        self._last[fire.schedule] = _LastFire(fire.call, fire.slot_ms, answer)
        return answer

    def _run(self, fire: Fire, record: ScheduleRecord) -> Fired:
        """Insert the fire's job unless something speaks against it."""
        if fire.job is None:
            return Fired("skipped" if fire.skipped else "missed")
        if fire.unless_running and record.last_job_id is not None:
            running = self._book.entries.get(record.last_job_id)
            if running is not None and not running.finished:
                return Fired("skipped", record.last_job_id)
        added = add(self._book, [fire.job], call=None)[0]
        if added.id != fire.job.id:
            return Fired("skipped", added.id)
        record.last_fired_ms, record.last_job_id = self._book.now(), fire.job.id
        return Fired("fired")
