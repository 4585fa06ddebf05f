"""Claims: handing out ready jobs, renewing leases, and taking over from dead owners."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from workfleet.model.jobs import UNDECODABLE, Claim, JobRecord
from workfleet.ports.stores import ClaimRequest, TakeOver

from .adding import queue_number
from .lane import Row, Step
from .records import RECORD, records_of

_RIPEN_LIMIT = 1_000
_SEQS_LIMIT = 100_000

_RIPEN = """
UPDATE wf_job SET state = priority > 0 WHERE seq IN (
  SELECT seq FROM wf_job INDEXED BY wf_job_due WHERE queue = ? AND state = 2 AND due_ms <= ? ORDER BY due_ms, seq LIMIT ?)
"""
_HAND_OUT = "UPDATE wf_job SET state = 3, claim = ?, lease_until_ms = ?, started_ms = ? WHERE seq IN "
_LAST_IN = """(
  SELECT seq FROM wf_job INDEXED BY wf_job_ready
  WHERE queue = ? AND lifo = 1 AND state < 2 ORDER BY due_ms DESC, seq DESC LIMIT ?)
"""
_FIRST_IN = """(
  SELECT seq FROM wf_job INDEXED BY wf_job_ready
  WHERE queue = ? AND lifo = 0 AND state < 2 ORDER BY priority, due_ms, seq LIMIT ?)
"""
_EXPIRED = """
SELECT seq FROM wf_job INDEXED BY wf_job_active
WHERE app = ? AND state = 3 AND lease_until_ms <= ? ORDER BY lease_until_ms, seq LIMIT ?
"""
_HELD_BY = """
SELECT j.seq FROM wf_job j INDEXED BY wf_job_active JOIN wf_claim c ON c.claim = j.claim
WHERE j.app = ? AND j.state = 3 AND c.worker IN (SELECT value FROM json_each(?)) ORDER BY j.lease_until_ms, j.seq LIMIT ?
"""
_TAKE_OVER = """
UPDATE wf_job SET claim = ?, lease_until_ms = ?,
  ran_by = coalesce(ran_by, (SELECT worker FROM wf_claim c WHERE c.claim = wf_job.claim)) WHERE seq = ?
"""


def claim_jobs(step: Step, app: str, request: ClaimRequest) -> list[JobRecord]:
    """Claim what is ready. The meaning is `JobStore.claim`'s."""
    number = claim_number(step, app, request.token)
    rows = [] if number is None else _held(step, number)
    if not rows:
        number = _next_number(step) if number is None else number
        if not _hand_out(step, app, request, number):
            return []
        _note(step, app, number, request.token, request.worker)
        rows = _held(step, number)
    wanted = {want.queue: place for place, want in enumerate(request.wants)}
    rows.sort(key=lambda row: (wanted.get(row[2], 0), _place(row)))
    return _readable(step, rows)


def renew_claims(step: Step, app: str, claims: Sequence[Claim], lease_ms: int) -> list[bool]:
    """Extend leases. The meaning is `JobStore.renew`'s."""
    renew = "UPDATE wf_job SET lease_until_ms = ? WHERE app = ? AND id = ? AND claim = ? AND state = 3"
    numbers = {token: claim_number(step, app, token) for token in {claim.token for claim in claims}}
    until = step.now + lease_ms
    return [bool(step.change(renew, until, app, claim.job_id, numbers[claim.token])) for claim in claims]


def take_over_jobs(step: Step, app: str, request: TakeOver) -> list[JobRecord]:
    """Move claims of dead owners. The meaning is `JobStore.take_over`'s."""
    number = claim_number(step, app, request.token)
    rows = [] if number is None else _held(step, number)
    if not rows:
        number = _next_number(step) if number is None else number
        seqs = _orphans(step, app, request)
        if not seqs:
            return []
        _note(step, app, number, request.token, request.worker)
        step.change_many(_TAKE_OVER, [(number, step.now + request.lease_ms, seq) for seq in seqs])
        places = {seq: place for place, seq in enumerate(seqs)}
        rows = sorted(_held(step, number), key=lambda row: places[row[0]])
    return records_of(rows)


def claim_number(step: Step, app: str, token: str) -> int | None:
    """The number under which a token's claim is noted."""
    row = step.row("SELECT claim FROM wf_claim WHERE app = ? AND token = ?", app, token)
    return None if row is None else row[0]


def _next_number(step: Step) -> int:
    row = step.row("SELECT value + 1 FROM wf_meta WHERE key = 'claim'")
    assert row is not None
    number: int = row[0]
    return number


def _note(step: Step, app: str, number: int, token: str, worker: str) -> None:
    """Note a claim, once it is known that it has jobs: a poll that finds nothing writes nothing."""
    note = """
        INSERT INTO wf_claim (claim, app, token, worker, granted_ms) VALUES (?, ?, ?, ?, ?)
        ON CONFLICT (claim) DO UPDATE SET granted_ms = excluded.granted_ms
    """
    step.change(note, number, app, token, worker, step.now)
    step.change("UPDATE wf_meta SET value = max(value, ?) WHERE key = 'claim'", number)


def _hand_out(step: Step, app: str, request: ClaimRequest, number: int) -> int:
    """Put ready jobs under a claim. Returns how many."""
    given = 0
    queues = {want.queue: queue_number(step, app, want.queue) for want in request.wants}
    for queue in queues.values():
        if queue is not None:
            step.change(_RIPEN, queue, step.now, _RIPEN_LIMIT)
    for want in request.wants:
        queue, left = queues[want.queue], max(want.limit, 0)
        for choice in (_LAST_IN, _FIRST_IN):
            if queue is not None and left:
                until = step.now + request.lease_ms
                changed = step.change(_HAND_OUT + choice, number, until, step.now, queue, left)
                left, given = left - changed, given + changed
    return given


def _held(step: Step, number: int) -> list[Row]:
    """What is held under a claim. Where these jobs are is remembered, because they will be settled soon."""
    rows = step.rows(f"{RECORD} WHERE j.claim = ? AND j.state = 3", number)
    seqs = step.memo.seqs
    if len(seqs) > _SEQS_LIMIT:
        seqs.clear()  # left over from claims that were lost
    for row in rows:
        seqs[row[1]] = row[0]
    return rows


def _place(row: Row) -> tuple[int, ...]:
    """The order in which ready jobs are claimed."""
    seq, priority, due_ms, lifo = row[0], row[4], row[7], row[25]
    return (0, -due_ms, -seq) if lifo else (1, priority, due_ms, seq)


def _orphans(step: Step, app: str, request: TakeOver) -> list[int]:
    """Which jobs are to be taken over."""
    if request.workers is None:
        rows = step.rows(_EXPIRED, app, step.now, request.limit)
    else:
        rows = step.rows(_HELD_BY, app, msgspec.json.encode(request.workers).decode(), request.limit)
    return [seq for (seq,) in rows]


def _readable(step: Step, rows: list[Row]) -> list[JobRecord]:
    """The records of claimed rows. One that cannot be read fails now, and its columns stay as they are."""
    readable = []
    for row, record in zip(rows, records_of(rows), strict=True):
        if record.outcome != UNDECODABLE:
            readable.append(record)
            continue
        fail = "UPDATE wf_job SET state = 6, finished_ms = ?, settled = claim, lease_until_ms = NULL WHERE seq = ?"
        step.change(fail, step.now, row[0])
        mark = "INSERT INTO wf_run (seq, outcome) VALUES (?1, ?2) ON CONFLICT (seq) DO UPDATE SET outcome = ?2"
        step.change(mark, row[0], UNDECODABLE)
    return readable
