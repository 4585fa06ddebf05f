"""Schedules and their fires, in Redis: a hash each, the definition as JSON, what changes with every fire as fields."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

import msgspec

from workfleet.model.handout import DueRequest, DueSchedules, Hold, held_until_ms
from workfleet.model.jobs import CANCELLED_UNRUN, JobRecord
from workfleet.model.schedules import NOTES_LIMIT, Fire, Fired, ScheduleRecord, SlotNote
from workfleet.model.timing import Manual

from ..batches import batches
from ..definitions import definition_of
from ..wakes import SCHEDULES
from .jobids import shown_id
from .link import Part
from .records import asked_of, json_of
from .scripts import Script
from .session import Session

_records = msgspec.json.Decoder(ScheduleRecord)
_notes = msgspec.json.Decoder(tuple[SlotNote, ...])
_encoder = msgspec.msgpack.Encoder()
_CANCELLED = {"failure": json_of(CANCELLED_UNRUN), "reason": CANCELLED_UNRUN.said()}
_UNREADABLE = "unreadable"
_BATCH = 200
"""So many in one script: the server serves others after a few milliseconds."""


class RedisSchedules:
    """A `ScheduleStore`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.revision_key = session.layout.app("schedules_revision")
        due = session.layout.app("schedules_due")
        self._keys = [session.layout.app("schedules"), session.layout.app("schedule:"), self.revision_key, due]
        self._merge = Script.load("schedule_merge")
        self._census = Script.load("schedule_census")
        self._orphan = Script.load("schedule_orphan")
        self._put = Script.load("schedule_put")
        self._remove = Script.load("schedule_remove")
        self._pause = Script.load("schedule_pause")
        self._page = Script.load("schedule_page")
        self._get = Script.load("schedule_get")
        self._due = Script.load("schedule_due")
        self._hold = Script.load("schedule_hold")
        self._fire = Script.load("schedule_fire")
        self._fire_keys = [session.layout.app("queues"), self._keys[1], due]

    async def merge(self, defined: Iterable[ScheduleRecord]) -> list[str]:
        names = set[str]()
        for batch in batches(defined, _BATCH):
            names.update(record.name for record in batch)
            unchanged = await self._change(self._merge, *(part for record in batch for part in _definition(record)))
            stored = {name.decode(): definition for name, definition in zip(*[iter(unchanged)] * 2, strict=True)}
            for record in batch:
                if record.name in stored and not _readable(stored[record.name]):
                    # Unchanged by its fingerprint, but written by a version that this one cannot read.
                    await self.put(record, replace=True)
        return sorted(await self._orphaned(names))

    async def _orphaned(self, defined: Container[str]) -> set[str]:
        """Mark what code defined and no longer does, and give the names of all that are."""
        found, cursor = set[str](), b"0"
        while True:
            cursor, here, orphaned = await self._session.run(self._census, self._keys, (cursor, _BATCH))
            gone = [name for name in (name.decode() for name in here) if name not in defined]
            if gone:
                await self._change(self._orphan, *gone)
            found.update(gone, (name.decode() for name in orphaned))
            if cursor == b"0":
                return found

    async def put(self, record: ScheduleRecord, *, replace: bool) -> bool:
        return bool(await self._change(self._put, int(replace), *_definition(record)))

    async def remove(self, name: str) -> bool:
        return bool(await self._change(self._remove, name))

    async def set_paused(self, name: str, *, paused: bool) -> bool:
        return bool(await self._change(self._pause, name, int(paused)))

    async def all(self) -> list[ScheduleRecord]:
        found, after = dict[str, ScheduleRecord](), ""
        while True:
            records, after = await self.page(after, _BATCH)
            found |= {record.name: record for record in records}
            if not after:
                return [found[name] for name in sorted(found)]

    async def get(self, names: Sequence[str]) -> list[ScheduleRecord | None]:
        found = await self._session.run(self._get, self._keys, names)
        return [_record(*each) if each[1] else None for each in found]

    async def page(self, after: str, limit: int) -> tuple[list[ScheduleRecord], str]:
        cursor, found = await self._session.run(self._page, self._keys, (after or "0", limit))
        return [_record(*each) for each in found], "" if cursor == b"0" else cursor.decode()

    async def claim_due(self, request: DueRequest) -> DueSchedules:
        asked = (request.limit, request.ahead_ms, request.hold_ms)
        now_ms, found, first = await self._session.run(self._due, self._keys, asked)
        self._session.hear(now_ms)
        return DueSchedules(now_ms, [_record(*each) for each in found], _instant(first))

    async def hold(self, holds: Sequence[Hold]) -> None:
        asked = (part for hold in holds for part in (hold.schedule, hold.slot_ms, hold.until_ms))
        await self._session.run(self._hold, self._keys, tuple(asked))

    async def fire(self, fires: Sequence[Fire]) -> list[Fired]:
        names = (self._session.layout.prefix, self._session.layout.app(""))
        asked = _encoder.encode({"fires": [_asked(fire) for fire in fires], "most": NOTES_LIMIT, **_CANCELLED})
        topics, answers = await self._session.run(self._fire, self._fire_keys, (*names, asked))
        self._session.announce(topics)
        return [
            Fired(kind.decode(), shown_id(running) or None) for kind, running in zip(*[iter(answers)] * 2, strict=True)
        ]

    async def wait(self, timeout_ms: int) -> bool:
        return await self._session.wakes.wait([SCHEDULES], timeout_ms)

    async def _change(self, script: Script, *args: Part) -> Any:
        topics, answer = await self._session.run(script, self._keys, args)
        self._session.announce(topics)
        return answer


def _definition(record: ScheduleRecord) -> tuple[Part, ...]:
    """What the scripts take of a definition; the definition itself without what has a field of its own."""
    due = "" if record.next_due_ms is None else record.next_due_ms
    held = "" if record.held_until_ms is None else record.held_until_ms
    flags = (int(record.enabled), int(record.from_code))
    return (record.name, definition_of(record), record.fingerprint, *flags, due, held)


def _asked(fire: Fire) -> dict[str, Any]:
    """A fire as its script takes it. Slots are text, which is compared with what is stored."""
    return {
        "schedule": fire.schedule,
        "slot": str(fire.slot_ms),
        "next": None if fire.next_due_ms is None else str(fire.next_due_ms),
        "held": None if fire.held_until_ms is None else str(fire.held_until_ms),
        "ran": str(fire.ran_slot_ms),
        "overlap": fire.overlap,
        "waits": fire.waits,
        "skipped": fire.skipped,
        "missed": fire.missed,
        "late": fire.late,
        "reasons": dict(fire.reasons),
        "call": fire.call,
        "job": None if fire.job is None else asked_of(fire.job),
    }


def _record(said: bytes, flat: list[bytes], score: bytes) -> ScheduleRecord:
    """A schedule of its name, its hash, and when it is handed out."""
    name, fields = said.decode(), dict(zip(*[iter(flat)] * 2, strict=True))

    def number(field: bytes) -> int | None:
        return int(fields[field]) if field in fields else None

    def text(field: bytes) -> str | None:
        return fields[field].decode() if field in fields else None

    record = _defined(name, fields)
    record.enabled, record.from_code = fields[b"enabled"] == b"1", fields[b"from_code"] == b"1"
    record.orphaned, record.paused = fields[b"orphaned"] == b"1" or record.orphaned, fields[b"paused"] == b"1"
    record.next_due_ms, record.last_slot_ms = number(b"next_due_ms"), number(b"last_slot_ms")
    record.held_until_ms = held_until_ms(record.next_due_ms, _instant(score))
    record.last_fired_ms, record.last_job_id = number(b"last_fired_ms"), None
    if b"last_job_id" in fields:
        record.last_job_id = shown_id(fields[b"last_job_id"])
    record.last_outcome = text(b"last_outcome")
    record.fired, record.skipped = int(fields[b"fired"]), int(fields[b"skipped"])
    record.missed_count = int(fields[b"missed"])
    record.coalesced, record.late = number(b"coalesced") or 0, number(b"late") or 0
    record.notes = _noted(fields.get(b"notes"))
    return record


def _noted(stored: bytes | None) -> tuple[SlotNote, ...]:
    try:
        return () if stored is None else _notes.decode(stored)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ()  # of a newer version; the next note goes after them


def _defined(name: str, fields: dict[bytes, bytes]) -> ScheduleRecord:
    try:
        return _records.decode(fields[b"definition"])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        # One that this version cannot read, of a newer one perhaps: kept, shown, never fired.
        return ScheduleRecord(
            name=name,
            timing=Manual(),
            fingerprint=fields[b"fingerprint"].decode(errors="replace"),
            job=JobRecord(id="", queue="", name=""),
            description=f"This version cannot read the stored schedule: {error}",
            facts={_UNREADABLE: str(error)},
            orphaned=True,
        )


def _instant(score: bytes) -> int | None:
    return int(float(score)) if score else None


def _readable(definition: bytes) -> bool:
    try:
        _records.decode(definition)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    return True
