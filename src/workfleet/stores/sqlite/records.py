"""Between rows and job records: what is a column, what is JSON in one, and what a damaged row becomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from workfleet.model.jobs import UNDECODABLE, Attempt, Failure, JobRecord, RunOverrides

from .lane import Row
from .schema import STATES


class Spec(Struct, kw_only=True, omit_defaults=True):
    """What is said at enqueue and never asked for in SQL. A newer version's fields stay in the row, unread."""

    run: RunOverrides | None = None
    lifo: bool = False
    delay_ms: int = 0
    schedule: str | None = None
    slot_ms: int | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, str] = {}


_INHERITED = RunOverrides()
_encoder = msgspec.json.Encoder()
_spec = msgspec.json.Decoder(Spec)
_failure = msgspec.json.Decoder(Failure)
_history = msgspec.json.Decoder(Attempt)
_Unreadable = (msgspec.MsgspecError, UnicodeDecodeError)

RECORD = """
SELECT j.seq, j.id, q.name, j.state, j.priority, j.housekeeping, j.created_ms, j.due_ms, j.started_ms, j.finished_ms,
  j.attempts_made, j.crashes, j.deferrals, j.unique_key, j.lease_until_ms, coalesce(j.ran_by, c.worker), c.token,
  b.name, b.payload, b.spec, r.outcome, r.result, r.failure, r.progress, CAST(r.history AS BLOB), j.lifo
FROM wf_job j CROSS JOIN wf_queue q ON q.queue = j.queue
  LEFT JOIN wf_body b ON b.seq = j.seq LEFT JOIN wf_run r ON r.seq = j.seq
  LEFT JOIN wf_claim c ON c.claim = j.claim AND j.state = 3
"""
"""A query for records, to be completed with a WHERE. `record_of` reads its rows."""


def spec_of(job: JobRecord) -> bytes | None:
    """The JSON of what a job says beside its columns; None when it says nothing."""
    spec = Spec(
        run=None if job.run == _INHERITED else job.run,
        lifo=job.lifo,
        delay_ms=job.delay_ms,
        schedule=job.schedule,
        slot_ms=job.slot_ms,
        tags=job.tags,
        metadata=job.metadata,
    )
    encoded = _encoder.encode(spec)
    return None if encoded == b"{}" else encoded


def json_of(value: Failure | Attempt) -> bytes:
    """The JSON of a failure or an attempt, whatever text is in it: recording an end cannot fail."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(_clean(value))


def clean_text(text: str) -> str:
    """Text without lone surrogates, which UTF-8 cannot hold."""
    return text.encode(errors="backslashreplace").decode()


def record_of(row: Row) -> JobRecord:
    """The record of a row of `RECORD`. What cannot be read is left out, and the outcome says `undecodable`."""
    try:
        return _record(row, _decoded(row))
    except _Unreadable:
        return _damaged(row)


def records_of(rows: Sequence[Row]) -> list[JobRecord]:
    return [record_of(row) for row in rows]


def _decoded(row: Row) -> tuple[Spec, Failure | None, tuple[Attempt, ...]]:
    spec, failure, history = row[19], row[22], row[24]
    if row[17] is None:
        raise msgspec.DecodeError("the row of its payload is missing")
    return (
        _NO_SPEC if spec is None else _spec.decode(spec),
        None if failure is None else _failure.decode(failure),
        () if history is None else tuple(_history.decode_lines(history)),
    )


_NO_SPEC = Spec()


def _record(row: Row, decoded: tuple[Spec, Failure | None, tuple[Attempt, ...]]) -> JobRecord:
    spec, failure, history = decoded
    return JobRecord(
        id=row[1],
        queue=row[2],
        name=row[17],
        payload=row[18],
        state=STATES[row[3]],
        run=spec.run or _INHERITED,
        priority=row[4],
        lifo=spec.lifo,
        delay_ms=spec.delay_ms,
        due_ms=row[7],
        unique_key=row[13],
        schedule=spec.schedule,
        slot_ms=spec.slot_ms,
        housekeeping=bool(row[5]),
        tags=spec.tags,
        metadata=dict(spec.metadata),
        created_ms=row[6],
        started_ms=row[8],
        finished_ms=row[9],
        attempts_made=row[10],
        crashes=row[11],
        deferrals=row[12],
        worker=row[15],
        token=row[16],
        lease_until_ms=row[14],
        outcome=row[20],
        result=row[21],
        failure=failure,
        progress=row[23],
        history=history,
    )


def _damaged(row: Row) -> JobRecord:
    """A record of what can be read, with a failure that names what cannot."""
    values: list[Any] = list(row)
    if values[17] is None:
        values[17], values[18] = "?", b"null"
    broken = []
    for name, column, read in (("spec", 19, _spec.decode), ("failure", 22, _failure.decode), ("history", 24, _lines)):
        try:
            if values[column] is not None:
                read(values[column])
        except _Unreadable as error:
            broken.append(f"{name}: {error}")
            values[column] = None
    reason = "; ".join(broken) or "the row of its payload is missing"
    values[20] = UNDECODABLE
    record = _record(tuple(values), _decoded(tuple(values)))
    record.failure = Failure(UNDECODABLE, f"this version cannot read the stored job ({reason})")
    return record


def _lines(history: bytes) -> object:
    return _history.decode_lines(history)


def _clean(value: Failure | Attempt) -> Failure | Attempt:
    cleaned: dict[str, Any] = {}
    for name, kept in structs.asdict(value).items():
        if isinstance(kept, str):
            cleaned[name] = clean_text(kept)
        elif isinstance(kept, Failure):
            cleaned[name] = _clean(kept)
    return structs.replace(value, **cleaned)
