"""Schedules and their fires, in Redis: a hash each, the definition as JSON, what changes with every fire as fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import structs

from workfleet.model.jobs import JobRecord
from workfleet.model.schedules import Fire, Fired, ScheduleRecord
from workfleet.model.timing import Manual

from ..wakes import SCHEDULES
from .jobids import shown_id
from .link import Part
from .records import asked_of
from .scripts import Script
from .session import Session

_records = msgspec.json.Decoder(ScheduleRecord)
_encoder = msgspec.msgpack.Encoder()
_UNREADABLE = "unreadable"


class RedisSchedules:
    """A `ScheduleStore`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.revision_key = session.layout.app("schedules_revision")
        self._keys = [session.layout.app("schedules"), session.layout.app("schedule:"), self.revision_key]
        self._merge = Script.load("schedule_merge")
        self._put = Script.load("schedule_put")
        self._remove = Script.load("schedule_remove")
        self._pause = Script.load("schedule_pause")
        self._all = Script.load("schedule_all")
        self._fire = Script.load("schedule_fire")
        self._fire_keys = [session.layout.app("queues"), self._keys[1]]

    async def merge(self, defined: Sequence[ScheduleRecord]) -> list[ScheduleRecord]:
        merged = _sorted(await self._change(self._merge, *(part for record in defined for part in _definition(record))))
        unreadable = {record.name for record in merged if _UNREADABLE in record.facts}
        anew = [record for record in defined if record.name in unreadable]
        for record in anew:
            # Unchanged by its fingerprint, but written by a version that this one cannot read.
            await self.put(record, replace=True)
        return await self.all() if anew else merged

    async def put(self, record: ScheduleRecord, *, replace: bool) -> bool:
        return bool(await self._change(self._put, int(replace), *_definition(record)))

    async def remove(self, name: str) -> bool:
        return bool(await self._change(self._remove, name))

    async def set_paused(self, name: str, *, paused: bool) -> bool:
        return bool(await self._change(self._pause, name, int(paused)))

    async def all(self) -> list[ScheduleRecord]:
        now_ms, found = await self._session.run(self._all, self._keys, ())
        self._session.hear(now_ms)
        return _sorted(found)

    async def fire(self, fires: Sequence[Fire]) -> list[Fired]:
        names = (self._session.layout.prefix, self._session.layout.app(""))
        asked = _encoder.encode([_asked(fire) for fire in fires])
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
    plain = structs.replace(
        record, paused=False, orphaned=False, next_due_ms=None, last_slot_ms=None, last_fired_ms=None,
        last_job_id=None, last_outcome=None, fired=0, skipped=0, missed_count=0,
    )  # fmt: skip
    due = "" if record.next_due_ms is None else record.next_due_ms
    flags = (int(record.enabled), int(record.from_code))
    return (record.name, msgspec.json.encode(plain), record.fingerprint, *flags, due)


def _asked(fire: Fire) -> dict[str, Any]:
    """A fire as its script takes it. Slots are text, which is compared with what is stored."""
    return {
        "schedule": fire.schedule,
        "slot": str(fire.slot_ms),
        "next": None if fire.next_due_ms is None else str(fire.next_due_ms),
        "ran": str(fire.ran_slot_ms),
        "unless_running": fire.unless_running,
        "skipped": fire.skipped,
        "missed": fire.missed,
        "call": fire.call,
        "job": None if fire.job is None else asked_of(fire.job),
    }


def _sorted(found: list[tuple[bytes, list[bytes]]]) -> list[ScheduleRecord]:
    records = (_record(name.decode(), dict(zip(*[iter(fields)] * 2, strict=True))) for name, fields in found)
    return sorted(records, key=lambda record: record.name)


def _record(name: str, fields: dict[bytes, bytes]) -> ScheduleRecord:
    def number(field: bytes) -> int | None:
        return int(fields[field]) if field in fields else None

    def text(field: bytes) -> str | None:
        return fields[field].decode() if field in fields else None

    record = _defined(name, fields)
    record.enabled, record.from_code = fields[b"enabled"] == b"1", fields[b"from_code"] == b"1"
    record.orphaned, record.paused = fields[b"orphaned"] == b"1" or record.orphaned, fields[b"paused"] == b"1"
    record.next_due_ms, record.last_slot_ms = number(b"next_due_ms"), number(b"last_slot_ms")
    record.last_fired_ms, record.last_job_id = number(b"last_fired_ms"), None
    if b"last_job_id" in fields:
        record.last_job_id = shown_id(fields[b"last_job_id"])
    record.last_outcome = text(b"last_outcome")
    record.fired, record.skipped = int(fields[b"fired"]), int(fields[b"skipped"])
    record.missed_count = int(fields[b"missed"])
    return record


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
