"""Between rows and job records: what is a column, what is JSON in one, and what a damaged row becomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from workfleet.model.jobs import UNDECODABLE, Attempt, Failure, JobRecord, Keep, RunOverrides, UniqueRule
from workfleet.ports.jobs import ClaimRequest

from ..texts import clean
from .lane import Row
from .schema import STATES


class Spec(Struct, kw_only=True, omit_defaults=True):
    """What is said at enqueue and never asked for in SQL. A newer version's fields stay in the row, unread."""

    run: RunOverrides | None = None
    lifo: bool = False
    delay_ms: int = 0
    unique: UniqueRule | None = None
    expires_after_ms: int | None = None
    expires_ms: int | None = None
    keep: Keep | None = None
    trace: str | None = None
    schedule: str | None = None
    slot_ms: int | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, str] = {}


_PLAIN = JobRecord(id="", queue="", name="")
_INHERITED, AS_ALL, UNTIL_FINISHED = _PLAIN.run, _PLAIN.keep, _PLAIN.unique
"""The very values that a record has of which nothing else was said: comparing identity first is quick."""
_encoder = msgspec.json.Encoder()
_spec = msgspec.json.Decoder(Spec)
_failure = msgspec.json.Decoder(Failure)
_history = msgspec.json.Decoder(Attempt)
_numbers = msgspec.json.Decoder(list[int])
_Unreadable = (msgspec.MsgspecError, UnicodeDecodeError)

_COMMON = """
j.seq, j.id, q.name, j.state, j.lifo, j.priority, j.due_ms, j.housekeeping, j.created_ms, j.started_ms, j.finished_ms,
j.attempts_made, j.crashes, j.deferrals, j.unique_key, j.lease_until_ms, j.settled, b.name, b.payload, b.spec,
j.grp, j.parked, j.suspicions, j.cancel_asked, j.key_until, j.turn
"""
_LEFT_BEHIND = (
    "coalesce(j.ran_by, c.worker), c.token, r.outcome, r.result, r.failure, p.progress, CAST(r.history AS BLOB)"
)

RECORD = f"""
SELECT {_COMMON}, {_LEFT_BEHIND} FROM wf_job j CROSS JOIN wf_queue q ON q.queue = j.queue
  LEFT JOIN wf_body b ON b.seq = j.seq LEFT JOIN wf_run r ON r.seq = j.seq LEFT JOIN wf_report p ON p.seq = j.seq
  LEFT JOIN wf_claim c ON c.claim = j.claim AND j.state = 3
"""
"""A query for records, to be completed with a WHERE. `record_of` reads its rows."""

CLAIMED = f"""
SELECT {_COMMON} FROM wf_job j INDEXED BY wf_job_active CROSS JOIN wf_queue q ON q.queue = j.queue
  LEFT JOIN wf_body b ON b.seq = j.seq WHERE j.claim = ? AND j.state = 3
"""
"""What is held under a claim, without what earlier runs left behind. `fresh_record_of` reads its rows."""

SEQ, ID, LIFO, PRIORITY, DUE, KEY, SETTLED, KEY_UNTIL, TURN = 0, 1, 4, 5, 6, 14, 16, 24, 25
_NAME, _PAYLOAD, _SPEC, _LEFT, _FAILURE, _HISTORY = 17, 18, 19, 26, 30, 32


def spec_again(stored: bytes | None, job: JobRecord, *, now_ms: int, delay_ms: int | None) -> bytes | None:
    """The JSON of a job that took over what a newcomer says, but for its place in the order and its rule."""
    try:
        old = Spec() if stored is None else _spec.decode(stored)
    except _Unreadable:
        old = Spec()
    new = _spec.decode(spec_of(job, now_ms) or b"{}")
    kept = {"lifo": old.lifo, "unique": old.unique, "delay_ms": old.delay_ms if delay_ms is None else delay_ms}
    return _said(structs.replace(new, **kept))


def expires_ms(job: JobRecord, now_ms: int) -> int | None:
    """The instant from which a job is not started any more."""
    after = None if job.expires_after_ms is None else now_ms + job.expires_after_ms
    return min((end for end in (job.expires_ms, after) if end is not None), default=None)


def _says_nothing(job: JobRecord) -> bool:
    """Most jobs; what says so by other than the usual values is found out later."""
    return (
        job.run is _INHERITED
        and job.unique is UNTIL_FINISHED
        and job.keep is AS_ALL
        and not (job.lifo or job.delay_ms or job.tags or job.metadata or job.trace or job.schedule)
        and job.expires_after_ms is None
        and job.expires_ms is None
        and job.slot_ms is None
    )


def _said(spec: Spec) -> bytes | None:
    encoded = _encoder.encode(spec)
    return None if encoded == b"{}" else encoded


def spec_of(job: JobRecord, now_ms: int) -> bytes | None:
    """The JSON of what a job says beside its columns; None when it says nothing."""
    if _says_nothing(job):
        return None
    spec = Spec(
        run=None if job.run == _INHERITED else job.run,
        lifo=job.lifo,
        delay_ms=job.delay_ms,
        unique=None if job.unique == UNTIL_FINISHED else job.unique,
        expires_after_ms=job.expires_after_ms,
        expires_ms=expires_ms(job, now_ms),
        keep=None if job.keep == AS_ALL else job.keep,
        trace=job.trace,
        schedule=job.schedule,
        slot_ms=job.slot_ms,
        tags=job.tags,
        metadata=job.metadata,
    )
    return _said(spec)


def json_of(value: Failure | Attempt) -> bytes:
    """The JSON of a failure or an attempt, whatever text is in it: recording an end cannot fail."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(clean(value))


def json_of_attempts(attempts: Mapping[int, Attempt]) -> str:
    """A JSON object of attempts without failures, by number, for `json_each`."""
    return _encoder.encode(attempts).decode()


def json_of_numbers(numbers: Sequence[int]) -> str:
    """A JSON list, for `json_each`."""
    return _encoder.encode(numbers).decode()


def numbers_from(text: str) -> list[int]:
    """What `json_group_array` gives."""
    return _numbers.decode(text)


def record_of(row: Row) -> JobRecord:
    """The record of a row of `RECORD`. What cannot be read is left out, and the outcome says `undecodable`."""
    try:
        return _record(row)
    except _Unreadable:
        return _damaged(row)


def fresh_record_of(row: Row, claim: ClaimRequest) -> JobRecord | None:
    """The record of a row of `CLAIMED` that was just handed out. None when it has a past, or cannot be read."""
    if row[SETTLED] is not None or row[_NAME] is None:
        return None
    try:
        record = _common(row)
    except _Unreadable:
        return None
    record.worker, record.token = claim.worker, claim.token
    return record


def records_of(rows: Sequence[Row]) -> list[JobRecord]:
    return [record_of(row) for row in rows]


def _common(row: Row) -> JobRecord:
    record = JobRecord(
        id=row[1],
        queue=row[2],
        name=row[_NAME],
        payload=row[_PAYLOAD],
        state=STATES[row[3]],
        priority=row[5],
        due_ms=row[6],
        created_ms=row[8],
        started_ms=row[9],
        finished_ms=row[10],
        unique_key=row[14],
        lease_until_ms=row[15],
    )
    if row[7]:
        record.housekeeping = True
    if row[SETTLED] is not None:
        record.attempts_made, record.crashes, record.deferrals = row[11:14]
        record.suspicions = row[22]
    if row[20]:
        record.group = row[20]
    if row[21]:
        record.parked = True
    if row[23]:
        record.cancel_asked = True
    if row[_SPEC] is not None:
        say(record, _spec.decode(row[_SPEC]))
    return record


def spec_from(text: str) -> Spec | None:
    """What was said at enqueue, None when it cannot be read."""
    try:
        return _spec.decode(text)
    except _Unreadable:
        return None


def say(record: JobRecord, spec: Spec) -> None:
    """Let a record say what was said at enqueue."""
    if spec.run is not None:
        record.run = spec.run
    record.lifo, record.delay_ms, record.tags, record.metadata = spec.lifo, spec.delay_ms, spec.tags, spec.metadata
    record.schedule, record.slot_ms, record.trace = spec.schedule, spec.slot_ms, spec.trace
    record.expires_after_ms, record.expires_ms = spec.expires_after_ms, spec.expires_ms
    if spec.unique is not None:
        record.unique = spec.unique
    if spec.keep is not None:
        record.keep = spec.keep


def _record(row: Row) -> JobRecord:
    if row[_NAME] is None:
        raise msgspec.DecodeError("the row of its payload is missing")
    record = _common(row)
    record.worker, record.token, record.outcome, record.result, failure, record.progress, history = row[_LEFT:]
    if failure is not None:
        record.failure = _failure.decode(failure)
    if history is not None:
        record.history = tuple(_history.decode_lines(history))
    return record


def _damaged(row: Row) -> JobRecord:
    """A record of what can be read, with a failure that names what cannot."""
    values: list[Any] = list(row)
    broken = []
    if values[_NAME] is None:
        values[_NAME], values[_PAYLOAD] = "?", b"null"
        broken.append("the row of its payload is missing")
    readers = (("spec", _SPEC, _spec.decode), ("failure", _FAILURE, _failure.decode), ("history", _HISTORY, _lines))
    for name, column, read in readers:
        try:
            if values[column] is not None:
                read(values[column])
        except _Unreadable as error:
            broken.append(f"{name}: {error}")
            values[column] = None
    record = _record(tuple(values))
    record.outcome = UNDECODABLE
    record.failure = Failure(UNDECODABLE, f"this version cannot read the stored job ({'; '.join(broken)})")
    return record


def _lines(history: bytes) -> object:
    return _history.decode_lines(history)
