"""Schedules and their fires, in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice

from msgspec import structs

from workfleet.model.handout import DueRequest, DueSchedules, Hold, held_until_ms
from workfleet.model.jobs import Enqueued
from workfleet.model.schedules import COALESCING, NOTES_LIMIT, Fire, Fired, ScheduleRecord, notes_of, status_of

from ..wakes import SCHEDULES, Wakes
from .adding import add
from .book import Book
from .due import DueBook
from .ending import cancel


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
        self._due = DueBook()
        self._last: dict[str, _LastFire] = {}
        self.revision = 0
        """Raised by every change of what is defined."""

    async def merge(self, defined: Iterable[ScheduleRecord]) -> list[str]:
        names = set[str]()
        for record in defined:
            names.add(record.name)
            self._merge(record)
        for there in self._records.values():
            if there.from_code and there.name not in names:
                there.orphaned = True
                self._due.note(there)
        self._changed()
        return sorted(name for name, record in self._records.items() if record.orphaned)

    async def put(self, record: ScheduleRecord, *, replace: bool) -> bool:
        there = self._records.get(record.name)
        if there is not None and not replace:
            return False
        self._set(record, there)
        self._changed()
        return True

    async def remove(self, name: str) -> bool:
        self._last.pop(name, None)
        self._due.forget(name)
        removed = self._records.pop(name, None)
        self._changed()
        return removed is not None

    async def set_paused(self, name: str, *, paused: bool) -> bool:
        there = self._records.get(name)
        if there is None:
            return False
        if not paused:
            there.held_until_ms = None
        there.paused = paused
        self._due.note(there)
        self._changed()
        return True

    async def all(self) -> list[ScheduleRecord]:
        return [structs.replace(self._records[name]) for name in sorted(self._records)]

    async def get(self, names: Sequence[str]) -> list[ScheduleRecord | None]:
        found = (self._records.get(name) for name in names)
        return [None if record is None else structs.replace(record) for record in found]

    async def page(self, after: str, limit: int) -> tuple[list[ScheduleRecord], str]:
        # Names are never empty, and each page goes through all of them: this store is for few.
        names = nsmallest(limit, (name for name in self._records if name > after))
        return [structs.replace(self._records[name]) for name in names], names[-1] if len(names) == limit else ""

    async def claim_due(self, request: DueRequest) -> DueSchedules:
        now = self._book.now()
        until = now + request.ahead_ms
        found = [self._records[name] for name in islice(self._due.up_to(until), request.limit)]
        next_ms = self._due.first_ms()
        for record in found:
            record.held_until_ms = until + request.hold_ms
            self._due.note(record)
        return DueSchedules(now, [structs.replace(record) for record in found], next_ms)

    async def hold(self, holds: Sequence[Hold]) -> None:
        for hold in holds:
            record = self._records.get(hold.schedule)
            if record is not None and record.next_due_ms == hold.slot_ms:
                record.held_until_ms = held_until_ms(hold.slot_ms, hold.until_ms)
                self._due.note(record)

    async def fire(self, fires: Sequence[Fire]) -> list[Fired]:
        answers = [self._fire(fire) for fire in fires]
        for fire, answer in zip(fires, answers, strict=True):
            record = self._records.get(fire.schedule)
            if answer.kind != "lost" and record is not None and record.next_due_ms == fire.next_due_ms:
                record.held_until_ms = held_until_ms(fire.next_due_ms, fire.held_until_ms)
                self._due.note(record)
        return answers

    async def wait(self, timeout_ms: int) -> bool:
        return await self._wakes.wait([SCHEDULES], timeout_ms)

    def _changed(self) -> None:
        self.revision += 1
        self._wakes.announce([SCHEDULES])

    def _merge(self, record: ScheduleRecord) -> None:
        there = self._records.get(record.name)
        if there is not None and there.from_code and there.fingerprint == record.fingerprint:
            there.orphaned = False
            self._due.note(there)
        else:
            self._set(record, there)

    def _set(self, record: ScheduleRecord, there: ScheduleRecord | None) -> None:
        """Store a definition. What the fleet did under that name so far stays."""
        self._records[record.name] = set_ = self._defined(record, there)
        set_.held_until_ms = held_until_ms(record.next_due_ms, record.held_until_ms)
        self._due.note(set_)

    def _defined(self, record: ScheduleRecord, there: ScheduleRecord | None) -> ScheduleRecord:
        if there is None:
            return structs.replace(record)
        return structs.replace(
            record,
            paused=there.paused,
            last_slot_ms=there.last_slot_ms,
            last_fired_ms=there.last_fired_ms,
            last_job_id=there.last_job_id,
            last_outcome=there.last_outcome,
            fired=there.fired,
            skipped=there.skipped,
            missed_count=there.missed_count,
            coalesced=there.coalesced,
            late=there.late,
            notes=there.notes,
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
        if answer.kind == "busy":
            return answer
        record.next_due_ms, record.last_slot_ms = fire.next_due_ms, fire.ran_slot_ms
        record.last_outcome = status_of(fire, answer.kind)
        record.missed_count += fire.missed
        record.fired += answer.kind == "fired"
        record.late += record.last_outcome == "late"
        record.coalesced += answer.kind == "coalesced"
        if answer.kind == "skipped":
            record.skipped += 1 if fire.job else fire.skipped
        record.notes = (*record.notes, *notes_of(fire, answer, self._book.now()))[-NOTES_LIMIT:]
        self._last[fire.schedule] = _LastFire(fire.call, fire.slot_ms, answer)
        return answer

    def _run(self, fire: Fire, record: ScheduleRecord) -> Fired:
        """Insert the fire's job unless something speaks against it."""
        if fire.job is None:
            return Fired("skipped" if fire.skipped else "missed")
        last = None if record.last_job_id is None else self._book.entries.get(record.last_job_id)
        running = fire.overlap != "allow" and last is not None and not last.finished
        if running and (fire.waits or fire.overlap == "skip"):
            return Fired("busy" if fire.waits else "skipped", record.last_job_id)
        if fire.overlap == "cancel_running" and not fire.waits:
            begun = self._book.begun(fire.job.unique_key)
            for entry in [*begun, last] if running and last is not None and last.claimed else begun:
                cancel(self._book, entry)
        if running and last is not None and not last.finished and last.record.unique_key != fire.job.unique_key:
            return Fired("skipped", record.last_job_id)  # it ran by another policy, and no key keeps them apart
        (added,) = add(self._book, [fire.job], call=None)
        if added.id != fire.job.id:
            return self._refused(fire, added)
        record.last_fired_ms, record.last_job_id = self._book.now(), fire.job.id
        return Fired("fired")

    def _refused(self, fire: Fire, added: Enqueued) -> Fired:
        """The answer to a fire whose job another one keeps out."""
        if fire.waits:
            return Fired("busy", added.id)
        there = self._book.entries.get(added.id)
        waits = there is not None and not there.claimed and not there.finished
        return Fired("coalesced" if waits and fire.overlap in COALESCING else "skipped", added.id)
