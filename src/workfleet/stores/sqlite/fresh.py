"""Jobs that were just handed out, read as one row of JSON.

A row for each would hand the interpreter's lock over and back for each, which is slow while the event loop is busy; and
JSON is decoded faster than rows are made. What is not as usual (a job with a past or a large payload, a row that cannot
be read) is left to `records.py`."""

from __future__ import annotations

import apsw
import msgspec
from msgspec import Struct

from workfleet.model.jobs import JobRecord, JobState
from workfleet.ports.jobs import ClaimRequest

from .lane import Step
from .records import say, spec_from

_LARGE = 64 * 1024
"""Payloads above this are not put into one text with others."""
_FOUND = """
SELECT json_group_array(json_array(
  j.seq, j.id, q.name, j.lifo, j.priority, j.due_ms, j.turn, j.settled, j.key_until, j.housekeeping, j.created_ms,
  j.unique_key, j.grp, b.name, iif(length(b.payload) <= ?2, CAST(b.payload AS TEXT), NULL),
  CAST(b.spec AS TEXT)))
FROM wf_job j INDEXED BY wf_job_active CROSS JOIN wf_queue q ON q.queue = j.queue
  LEFT JOIN wf_body b ON b.seq = j.seq WHERE j.claim = ?1 AND j.state = 3 AND j.turn >= ?3
"""


class Fresh(Struct, array_like=True, gc=False):
    """What a job that was just handed out is known by."""

    seq: int
    id: str
    queue: str
    lifo: int
    priority: int
    due_ms: int
    turn: int
    settled: int | None
    key_until: int
    housekeeping: int
    created_ms: int
    unique_key: str | None
    group: str
    name: str | None
    payload: str | None
    spec: str | None

    def place(self) -> tuple[int, ...]:
        """Where it was among what its claim was given."""
        if self.lifo:
            return (self.turn, 0, -self.due_ms, -self.seq)
        return (self.turn, 1, self.priority, self.due_ms, self.seq)

    def record(self, claim: ClaimRequest, now_ms: int) -> JobRecord | None:
        """Its record. None when it has a past or a large payload, or cannot be read."""
        if self.settled is not None or self.name is None or self.payload is None:
            return None
        record = JobRecord(
            id=self.id,
            queue=self.queue,
            name=self.name,
            payload=self.payload.encode(),
            state=JobState.ACTIVE,
            priority=self.priority,
            due_ms=self.due_ms,
            unique_key=self.unique_key,
            group=self.group,
            created_ms=self.created_ms,
            started_ms=now_ms,
            worker=claim.worker,
            token=claim.token,
            lease_until_ms=now_ms + claim.lease_ms,
        )
        if self.housekeeping:
            record.housekeeping = True
        if self.spec is not None:
            spec = spec_from(self.spec)
            if spec is None:
                return None
            say(record, spec)
        return record


_fresh = msgspec.json.Decoder(list[Fresh])


def just_handed_out(step: Step, number: int, first: int) -> list[Fresh] | None:
    """What is held under a claim, in the order in which it was handed out, from that turn on. None when it cannot be
    had in one row."""
    try:
        row = step.row(_FOUND, number, _LARGE, first)
        found = _fresh.decode(row[0]) if row is not None else []
    except (apsw.TooBigError, apsw.NoMemError, UnicodeDecodeError, msgspec.MsgspecError):
        return None
    if len(found) > 1:
        found.sort(key=Fresh.place)
    return found
