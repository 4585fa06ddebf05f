"""A row of the outbox, from a job and back to the record that the store takes. Knows no database."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from workfleet.model.jobs import MAX_PRIORITY, JobRecord, JobState
from workfleet.model.names import plain_name, queue_name

from .schema import VERSION

_LONGEST_REASON = 500
_LAST_MS = 2**53
_LONGEST_KEY = 2_000


class Row(Struct, frozen=True):
    """One row as it is read. What a user's database returns may be anything, so texts come as bytes."""

    position: int
    id: bytes
    queue: bytes | None
    job: bytes

    @property
    def key(self) -> tuple[int, bytes]:
        """The row itself: a database restored from a copy may give a number again."""
        return self.position, self.id


class NewRow(Struct, frozen=True):
    """One row as it is written."""

    app: str
    id: str
    queue: str | None
    created_ms: int
    job: str

    def parameters(self) -> tuple[object, ...]:
        """The values of the columns, in the order of `schema.insert`."""
        return (self.app, VERSION, self.id, self.queue, self.created_ms, self.job)


class Unreadable(Exception):
    """A row that cannot be made a job. Its text is the reason."""


class _Stored(Struct):
    """The JSON of the column `job`. The payload stands beside its record, so that people can read it."""

    payload: Raw
    record: JobRecord


def written(app: str, record: JobRecord, now_ms: int, *, queue: str | None) -> NewRow:
    """The row of a new job. What it counts from its enqueue (delay, expiry) is counted from now: the relay comes
    later."""
    due_ms = max(record.due_ms, now_ms + record.delay_ms if record.delay_ms else 0)
    expires = [record.expires_ms] if record.expires_ms is not None else []
    if record.expires_after_ms is not None:
        expires.append(now_ms + record.expires_after_ms)
    kept = msgspec.structs.replace(
        record,
        delay_ms=0,
        due_ms=due_ms,
        expires_after_ms=None,
        expires_ms=min(expires, default=None),
    )
    fields = {name: value for name, value in msgspec.to_builtins(kept).items() if name != "payload" and value != {}}
    text = msgspec.json.encode({"payload": Raw(record.payload), "record": fields}).decode()
    return NewRow(app, record.id, queue, now_ms, text)


def read(row: Row, default_queue: str) -> JobRecord:
    """The record of a row, as it is enqueued. Raises `Unreadable`. Fields that nobody here knows are passed over."""
    try:
        stored = msgspec.json.decode(row.job, type=_Stored)
        record = stored.record
        record.payload = bytes(stored.payload)
        _place(record, queue_name(default_queue if row.queue is None else row.queue.decode()))
        if record.id != row.id.decode():
            raise ValueError(f"the column id and the record's id differ: {record.id!r}")
        _check(record)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}"[:_LONGEST_REASON]) from None
    return record


def _place(record: JobRecord, queue: str) -> None:
    """Give it its queue. Its unique key begins with one, too: whoever wrote it does not know the workers' default."""
    written_for = f"{record.queue}/"
    if record.unique_key is not None and record.unique_key.startswith(written_for):
        record.unique_key = f"{queue}/{record.unique_key.removeprefix(written_for)}"
    record.queue = queue


def _check(record: JobRecord) -> None:
    """What `Outbox` never writes, but a hand may have: a store that chokes on one row would hold up all others."""
    plain_name("job", record.name)
    if not record.id.isprintable() or not 0 < len(record.id.encode()) <= 255 or ":" in record.id:
        raise ValueError(f"its id is not 1 to 255 bytes of printable text without a colon: {record.id!r}")
    if not 0 <= record.priority <= MAX_PRIORITY:
        raise ValueError(f"its priority is not 0 to {MAX_PRIORITY}: {record.priority}")
    instants = (record.due_ms, record.delay_ms, record.expires_ms or 0, record.expires_after_ms or 0)
    if not all(0 <= instant < _LAST_MS for instant in instants):
        raise ValueError("one of its instants is out of range")
    numbers = list(_numbers(msgspec.to_builtins(record)))
    if not all(0 <= number < _LAST_MS for number in numbers):
        raise ValueError("one of its numbers is out of range")
    if record.unique_key is not None and len(record.unique_key) > _LONGEST_KEY:
        raise ValueError(f"its unique key has {len(record.unique_key):,} characters, at most {_LONGEST_KEY:,}")
    ran = (record.attempts_made, record.crashes, record.deferrals, record.history, record.outcome, record.cancel_asked)
    if any(ran):
        raise ValueError("it is the record of a job that was enqueued already")
    if record.state is not JobState.WAITING or record.token is not None or record.result is not None:
        raise ValueError("it is the record of a job that was enqueued already")


def _numbers(value: object) -> Iterator[float]:
    """Every number in it, however deep."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from _numbers(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _numbers(inner)
    elif isinstance(value, int | float):
        yield value
