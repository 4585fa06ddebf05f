"""Between job records and what Redis holds: BullMQ's fields, and `wf`, where what BullMQ does not know is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from workfleet.model.jobs import (
    UNDECODABLE,
    Attempt,
    Failure,
    JobRecord,
    JobState,
    Keep,
    KeepRule,
    RunOverrides,
    UniqueRule,
)
from workfleet.model.outcome import Settlement
from workfleet.ports.jobs import ClaimRequest

from ..texts import clean
from .bullmq import options_of, overrides_from
from .jobids import shown_id, stored_id

Row = Sequence[Any]
"""Queue, id, state, token, lease end, and the fields that `parts/job.lua` shows; or of a fresh job what
`fresh_record_of` takes."""
FRESH_ROW = 8


class Spec(Struct, kw_only=True, omit_defaults=True):
    """What is said at enqueue and no script asks for."""

    run: RunOverrides | None = None
    trace: str | None = None
    schedule: str | None = None
    slot_ms: int | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, str] = {}


class Ours(Struct, kw_only=True):
    """The field `wf`, as `parts/job.lua` says. JSON within it is text. Other fields belong to newer versions."""

    n: int = 0
    due: int | None = None
    delay: int = 0
    lifo: bool = False
    group: str = ""
    key: str | None = None
    rule: str | None = None
    hk: bool = False
    after: int | None = None
    exp: int | None = None
    keepc: str | None = None
    keepf: str | None = None
    spec: str | None = None
    parked: bool = False
    cancel: bool = False
    code: str | None = None
    failure: str | None = None
    deferrals: int = 0
    suspicions: int = 0
    history: tuple[str, ...] = ()


_PLAIN = JobRecord(id="", queue="", name="")
_INHERITED, _AS_ALL, _UNTIL_FINISHED = _PLAIN.run, _PLAIN.keep, _PLAIN.unique
_STATES = {state.value.encode(): state for state in JobState}
_encoder = msgspec.json.Encoder()
_ours = msgspec.json.Decoder(Ours)
_spec = msgspec.json.Decoder(Spec)
_rule = msgspec.json.Decoder(UniqueRule)
_keep_rule = msgspec.json.Decoder(KeepRule)
_failure = msgspec.json.Decoder(Failure)
_attempt = msgspec.json.Decoder(Attempt)
_Unreadable = (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError)
_MOST = 2**53
"""Scripts count exactly up to here."""


def asked_of(job: JobRecord) -> dict[str, Any]:
    """A job to add, as `parts/adding.lua` takes it."""
    asked: dict[str, Any] = {
        "id": stored_id(job.id),
        "queue": job.queue,
        "name": job.name,
        "data": job.payload.decode(),
        "opts": options_of(job),
        "priority": job.priority,
        "delay": job.delay_ms,
        "due": job.due_ms,
    }
    if job.lifo:
        asked["lifo"] = True
    if job.group:
        asked["group"] = job.group
    if job.unique_key is not None:
        asked["key"], asked["conflict"] = job.unique_key, job.unique.on_conflict
    if job.unique is not _UNTIL_FINISHED and job.unique != _UNTIL_FINISHED:
        asked["rule"] = _json(job.unique)
    if job.housekeeping:
        asked["hk"] = True
    if job.expires_after_ms is not None:
        asked["after"] = job.expires_after_ms
    if job.expires_ms is not None:
        asked["exp"] = job.expires_ms
    if job.keep.completed is not None:
        asked["keepc"] = _json(job.keep.completed)
    if job.keep.failed is not None:
        asked["keepf"] = _json(job.keep.failed)
    spec = _spec_of(job)
    if spec is not None:
        asked["spec"] = spec
    return asked


class _Said(Struct, omit_defaults=True):
    """What `wf` says of a job like most, beside its number."""

    keepc: str | None = None
    keepf: str | None = None
    spec: str | None = None


def plain_of(jobs: Sequence[JobRecord]) -> list[str] | None:
    """Jobs to add, as `parts/plain.lua` takes them; None where they are not all like most."""
    if not jobs:
        return None
    queue = jobs[0].queue
    listed = [queue]
    for job in jobs:
        if (
            job.queue != queue
            or job.priority
            or job.delay_ms
            or job.due_ms
            or job.unique_key is not None
            or job.group
            or job.lifo
            or job.housekeeping
            or job.expires_after_ms is not None
            or job.expires_ms is not None
            or (job.unique is not _UNTIL_FINISHED and job.unique != _UNTIL_FINISHED)
        ):
            return None
        listed += (stored_id(job.id), job.name, job.payload.decode(), options_of(job), _said_of(job))
    return listed


def _said_of(job: JobRecord) -> str:
    spec = _spec_of(job)
    if spec is None and job.keep is _AS_ALL:
        return "}"
    said = _json(_Said(_rule_text(job.keep.completed), _rule_text(job.keep.failed), spec))
    return "}" if said == "{}" else f",{said[1:]}"


def _rule_text(rule: KeepRule | None) -> str | None:
    return None if rule is None else _json(rule)


def _spec_of(job: JobRecord) -> str | None:
    if job.run is _INHERITED and not (job.tags or job.metadata or job.trace or job.schedule or job.slot_ms is not None):
        return None
    run = None if job.run == _INHERITED else job.run
    spec = Spec(
        run=run,
        trace=job.trace,
        schedule=job.schedule,
        slot_ms=job.slot_ms,
        tags=job.tags,
        metadata=job.metadata,
    )
    encoded = _json(spec)
    return None if encoded == "{}" else encoded


def _json(value: Struct) -> str:
    # Scripts read text: their MessagePack knows no binary.
    return _encoder.encode(value).decode()


def json_of(value: Failure | Attempt) -> str:
    """The JSON of a failure or an attempt, whatever text is in it: recording an end cannot fail."""
    try:
        return _json(value)
    except UnicodeEncodeError:
        return _json(clean(value))


class _End(Struct, omit_defaults=True):
    """What `wf` says of the end of a run, as `parts/ending.lua` takes it."""

    code: str
    settled: str
    failure: str | None = None
    deferrals: int = 0
    suspicions: int = 0
    history: tuple[str, ...] = ()


def ours_of(settlement: Settlement) -> str:
    """The JSON of what `wf` says after a settlement."""
    outcome = settlement.outcome
    end = _End(
        code=outcome.code,
        settled=settlement.claim.token,
        failure=None if outcome.failure is None else json_of(outcome.failure),
        deferrals=outcome.deferrals,
        suspicions=outcome.suspicions,
        history=() if outcome.attempt is None else (json_of(outcome.attempt),),
    )
    return _json(end)


def record_of(row: Row) -> JobRecord:
    """The record of a row. What cannot be read is left out, and the outcome says `undecodable`."""
    record = _common(row)
    try:
        _count(record, row[5])
        _complete(record, row[5])
    except _Unreadable as error:
        _mark(record, error)
    if row[3] is None and row[4] is not None:
        # Where it waits says when: BullMQ's programs add delayed jobs, and delay ours, without a word of ours.
        record.due_ms = int(row[4])
    return record


def fresh_record_of(row: Row, request: ClaimRequest, now_ms: int) -> JobRecord:
    """The record of a row of `parts/batch.lua`: a job of ours that was claimed now, for the first time."""
    queue, job_id, name, payload, created, priority, progress, ours = row
    record = JobRecord(
        id=shown_id(job_id),
        queue=queue.decode(),
        name="?" if name is None else name.decode(errors="backslashreplace"),
        payload=b"null" if payload is None else payload,
        state=JobState.ACTIVE,
        progress=progress,
        started_ms=now_ms,
        worker=request.worker,
        token=request.token,
        lease_until_ms=now_ms + request.lease_ms,
    )
    try:
        record.created_ms = record.due_ms = _whole(created)
        if priority != b"0":
            record.priority = _whole(priority or 0)
        if name is None or payload is None:
            raise ValueError(f"its {'name' if name is None else 'payload'} is missing")
        _say(record, said := _ours.decode(ours))
        if said.spec is not None:
            _specify(record, _spec.decode(said.spec))
    except _Unreadable as error:
        _mark(record, error)
    return record


def is_kept(record: JobRecord) -> bool:
    """Whether a job is kept at all when it has completed."""
    rule = record.keep.completed
    return rule is None or rule.count != 0


def is_plain(record: JobRecord) -> bool:
    """Whether the end of a fresh job concerns nobody else, so that `parts/batch.lua` may settle it as completed."""
    return (
        record.unique_key is None
        and not record.group
        and (record.keep.completed is None or record.keep.completed.count == 0)
        and not record.housekeeping
        and record.outcome is None
        and not record.history
    )


def _mark(record: JobRecord, error: Exception) -> None:
    record.outcome = UNDECODABLE
    record.failure = Failure(UNDECODABLE, f"this version cannot read the stored job ({error})")


def _common(row: Row) -> JobRecord:
    """What is plain in a row."""
    queue, job_id, state, token, until, fields = row
    name, data, worker = fields[0], fields[1], fields[12]
    record = JobRecord(
        id=shown_id(job_id),
        queue=queue.decode(),
        name="?" if name is None else name.decode(errors="backslashreplace"),
        payload=b"null" if data is None else data,
        state=_STATES[state],
        progress=fields[7],
        result=fields[8],
    )
    if token is not None:
        record.token, record.lease_until_ms = token.decode(), int(until)
        record.worker = None if worker is None else worker.decode(errors="backslashreplace")
    return record


def _whole(said: bytes | int) -> int:
    try:
        number = int(said)
    except ValueError:
        number = _MOST
    if -_MOST < number < _MOST:
        return number
    raise ValueError("one of its numbers is none")


def _count(record: JobRecord, fields: Sequence[bytes | None]) -> None:
    """What is a number in a row."""
    timestamp, priority, started, finished = fields[3:7]
    made, crashes = fields[10:12]
    record.created_ms = record.due_ms = _whole(timestamp or b"")
    if priority is not None and priority != b"0":
        record.priority = _whole(priority)
    if started is not None:
        record.started_ms = _whole(started)
    if finished is not None:
        record.finished_ms = _whole(finished)
    if made is not None:
        record.attempts_made = _whole(made)
    if crashes is not None:
        record.crashes = _whole(crashes)


def _complete(record: JobRecord, fields: Sequence[bytes | None]) -> None:
    """What is JSON in a row."""
    if fields[0] is None:
        raise ValueError("its name is missing")
    if fields[1] is None:
        raise ValueError("its payload is missing")
    text = fields[13]
    ours = Ours() if text is None else _ours.decode(text)
    _say(record, ours)
    if fields[16] is not None:
        _say_end(record, fields[16], fields[12])
    if ours.spec is not None:
        _specify(record, _spec.decode(ours.spec))
    if not ours.n and fields[2] is not None:
        # A job that BullMQ has added.
        record.run, record.lifo, record.trace = overrides_from(fields[2])
    if ours.code is None and record.finished_ms is not None:
        record.outcome = record.state.value  # as most end, or a BullMQ worker has ended it
    reason = fields[9]
    if ours.failure is not None:
        record.failure = _failure.decode(ours.failure)
    elif reason is not None:
        record.failure = Failure("raised", reason.decode(errors="backslashreplace"))
    if fields[15] is not None:
        record.doomed = Failure("doomed", fields[15].decode(errors="backslashreplace"))


def _say(record: JobRecord, ours: Ours) -> None:
    if ours.due is not None:
        record.due_ms = ours.due
    record.delay_ms, record.lifo, record.group, record.unique_key = ours.delay, ours.lifo, ours.group, ours.key
    if ours.rule is not None:
        record.unique = _rule.decode(ours.rule)
    record.housekeeping, record.expires_after_ms, record.expires_ms = ours.hk, ours.after, ours.exp
    if ours.keepc is not None or ours.keepf is not None:
        record.keep = Keep(
            None if ours.keepc is None else _keep_rule.decode(ours.keepc),
            None if ours.keepf is None else _keep_rule.decode(ours.keepf),
        )
    record.parked, record.cancel_asked, record.outcome = ours.parked, ours.cancel, ours.code
    record.deferrals, record.suspicions = ours.deferrals, ours.suspicions
    if ours.history:
        record.history = tuple(map(_attempt.decode, ours.history))


def _say_end(record: JobRecord, said: bytes, worker: bytes | None) -> None:
    """What `wfd` says of the only run of a job."""
    finished, ended, _ = said.split(b" ", 2)
    if int(finished) == record.finished_ms:
        run = Attempt(1, "completed", record.started_ms or 0, int(ended), (worker or b"").decode())
        record.history = (*record.history, run)


def _specify(record: JobRecord, spec: Spec) -> None:
    if spec.run is not None:
        record.run = spec.run
    record.trace, record.schedule, record.slot_ms = spec.trace, spec.schedule, spec.slot_ms
    record.tags, record.metadata = spec.tags, spec.metadata
