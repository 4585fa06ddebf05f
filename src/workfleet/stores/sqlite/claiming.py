"""Claims: handing out ready jobs, renewing leases, and taking over from dead owners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

import msgspec

from workfleet.model.jobs import UNDECODABLE, Claim, JobRecord
from workfleet.ports.jobs import ClaimRequest, TakeOver

from ..wakes import queue_topic
from ..wants import still_wanted
from .adding import queue_number
from .claims import claim_note, known_number, next_number, note_claim
from .ending import ended
from .fresh import just_handed_out
from .lane import Row, Step
from .limiting import Line, line_of
from .records import (
    CLAIMED,
    DUE,
    LIFO,
    PRIORITY,
    RECORD,
    SEQ,
    TURN,
    json_of_numbers,
    numbers_from,
    record_of,
)
from .turns import take_turns

_RIPEN_LIMIT = 1_000
_HELD_LIMIT = 100_000
_FEW = 10
_UNREADABLE_LIMIT = 1_000
"""So many jobs that cannot be read one claim fails, so that damage holds the store for no longer than that."""

_RIPEN = """
UPDATE wf_job SET state = priority > 0 WHERE seq IN (
  SELECT seq FROM wf_job INDEXED BY wf_job_due
  WHERE queue = ? AND state = 2 AND parked = 0 AND due_ms <= ? ORDER BY due_ms, seq LIMIT ?)
"""
_HAND_OUT = """
UPDATE wf_job SET state = 3, claim = ?1, lease_until_ms = ?2, started_ms = ?3, counted = ?4, turn = ?5 WHERE seq IN
"""
_READY = """
SELECT
  (SELECT json_group_array(seq) FROM (
    SELECT seq FROM wf_job INDEXED BY wf_job_ready
    WHERE queue = ?1 AND grp = ?2 AND lifo = 1 AND priority = 0 AND state < 2
    ORDER BY due_ms DESC, seq DESC LIMIT ?3)),
  (SELECT json_group_array(seq) FROM (
    SELECT seq FROM wf_job INDEXED BY wf_job_ready
    WHERE queue = ?1 AND grp = ?2 AND lifo = 0 AND state < 2 ORDER BY priority, due_ms, seq LIMIT ?3))
"""
"""What is to be handed out last in first out, which goes first, and what first in first out."""
_EXPIRED = """
SELECT seq FROM wf_job INDEXED BY wf_job_active
WHERE app = ? AND state = 3 AND lease_until_ms <= ? ORDER BY lease_until_ms, seq LIMIT ?
"""
_HELD_BY = """
SELECT j.seq FROM wf_job j INDEXED BY wf_job_active JOIN wf_claim c ON c.claim = j.claim
WHERE j.app = ? AND j.state = 3 AND c.worker IN (SELECT value FROM json_each(?))
ORDER BY j.lease_until_ms, j.seq LIMIT ?
"""
_MARK = """
INSERT INTO wf_run (seq, outcome, attempts) VALUES (?1, ?2, 0) ON CONFLICT (seq) DO UPDATE SET outcome = ?2
"""
_BY_SEQ = f"{RECORD} WHERE j.seq = ?"
_TAKE_OVER = """
UPDATE wf_job SET claim = ?, lease_until_ms = ?,
  ran_by = coalesce(ran_by, (SELECT worker FROM wf_claim c WHERE c.claim = wf_job.claim)) WHERE seq = ?
"""


def claim_jobs(step: Step, app: str, request: ClaimRequest) -> list[JobRecord]:
    """Claim what is ready. The meaning is `JobStore.claim`'s."""
    known = known_number(step, app, request.token)
    held = [] if known is None else step.rows(CLAIMED, known)
    if held and (still := _readable(step, app, _all_of(step, held))):
        return still
    number = next_number(step) if known is None else known
    hand = _Hand(step, number, step.now + request.lease_ms)
    given: list[JobRecord] = []
    wanted, unreadable, first = request, 0, 0
    while count := _hand_out(step, app, wanted, hand):
        if not first:
            note_claim(step, app, number, request, again=known is not None)
        some = _handed_out(step, app, request, number, first)
        given += some
        if len(some) == count:
            break
        # Those that cannot be read are out of the way now: others are to have their places.
        unreadable += count - len(some)
        if unreadable >= _UNREADABLE_LIMIT:
            step.topics.update(queue_topic(want.queue) for want in request.wants)
            break
        wanted, first = still_wanted(request, given), hand.turn
    return given


def _handed_out(step: Step, app: str, request: ClaimRequest, number: int, first: int) -> list[JobRecord]:
    """What a claim has just been given, from that turn on. Where these jobs are is remembered, because they will be
    settled soon."""
    fresh = just_handed_out(step, number, first)
    if fresh is None:
        rows = [row for row in step.rows(CLAIMED, number) if row[TURN] >= first]
        return _readable(step, app, _all_of(step, rows))
    held = step.memo.held
    if len(held) > _HELD_LIMIT:
        held.clear()  # left over from claims that were lost
    given: list[JobRecord] = []
    for job in fresh:
        held[job.id] = (job.seq, job.settled, job.key_until)
        record = job.record(request, step.now)
        if record is None:
            given += _readable(step, app, [(job.seq, record_of(_full(step, job.seq)))])
        else:
            given.append(record)
    return given


def renew_claims(step: Step, app: str, claims: Sequence[Claim], lease_ms: int) -> list[bool]:
    """Extend leases. The meaning is `JobStore.renew`'s."""
    renew = "UPDATE wf_job SET lease_until_ms = ? WHERE app = ? AND id = ? AND claim = ? AND state = 3"
    tokens = {claim.token for claim in claims}
    numbers = {token: note and note[0] for token in tokens for note in (claim_note(step, app, token),)}
    until = step.now + lease_ms
    return [bool(step.change(renew, until, app, claim.job_id, numbers[claim.token])) for claim in claims]


def take_over_jobs(step: Step, app: str, request: TakeOver) -> list[JobRecord]:
    """Move claims of dead owners. The meaning is `JobStore.take_over`'s."""
    known = known_number(step, app, request.token)
    held = [] if known is None else [row[SEQ] for row in step.rows(CLAIMED, known)]
    if not held:
        number = next_number(step) if known is None else known
        held = _orphans(step, app, request)
        if not held:
            return []
        note_claim(step, app, number, request, again=known is not None)
        step.change_many(_TAKE_OVER, [(number, step.now + request.lease_ms, seq) for seq in held])
    return [record_of(row) for seq in held for row in step.rows(_BY_SEQ, seq)]


def _hand_out(step: Step, app: str, request: ClaimRequest, hand: _Hand) -> int:
    """Put ready jobs under a claim: each want up to its share, then up to its limit. Returns how many."""
    lines: dict[str, Line] = {}
    for want in request.wants:
        queue = queue_number(step, app, want.queue)
        if queue is not None and want.limit > 0 and want.queue not in lines:
            line = line_of(step, queue)
            # Looked for first, because a statement that changes nothing opens every index of the table all the same.
            if line.ripe:
                step.change(_RIPEN, queue, step.now, _RIPEN_LIMIT)
                line = line_of(step, queue)
            if not line.paused:
                lines[want.queue] = line
    most = sum(max(want.limit, 0) for want in request.wants) if request.total is None else request.total
    shares = [want.limit if want.share is None else min(want.share, want.limit) for want in request.wants]
    given = [0] * len(shares)
    for goals in (shares, [want.limit for want in request.wants]):
        for place, want in enumerate(request.wants):
            wanted = min(goals[place] - given[place], most - sum(given))
            line_now = lines.get(want.queue)
            # A queue that gave less than its share has no more.
            if line_now is None or wanted <= 0 or (goals is not shares and given[place] < shares[place]):
                continue
            given[place] += take_turns(line_now, wanted, hand.give)
    for line in lines.values():
        line.note()
    return sum(given)


@dataclass
class _Hand:
    """Puts jobs under one claim, and remembers in which order."""

    step: Step
    number: int
    until: int
    turn: int = 0

    def give(self, line: Line, group: str, most: int) -> int:
        """Hand out up to so many ready jobs of a group."""
        row = self.step.row(_READY, line.queue, group, most)
        assert row is not None
        last_in, first_in = row
        seqs = (numbers_from(last_in) + numbers_from(first_in))[:most]
        if not seqs:
            return 0
        facts = (self.number, self.until, self.step.now, int(line.limited), self.turn)
        if len(seqs) < _FEW:
            # For a few, rows one by one cost less than a statement that changes many.
            self.step.change_many(f"{_HAND_OUT} (?)", [(*facts, seq) for seq in seqs])
        else:
            self.step.change(f"{_HAND_OUT} (SELECT value FROM json_each(?))", *facts, json_of_numbers(seqs))
        self.turn += 1
        return len(seqs)


def _full(step: Step, seq: int) -> Row:
    """The row with what earlier runs left behind."""
    return step.rows(_BY_SEQ, seq)[0]


def _all_of(step: Step, rows: list[Row]) -> list[tuple[int, JobRecord]]:
    """The records of rows of `CLAIMED`, in the order in which they were handed out."""
    return [(row[SEQ], record_of(_full(step, row[SEQ]))) for row in _in_order(rows)]


def _in_order(rows: list[Row]) -> list[Row]:
    """The order in which jobs were handed out."""
    ordered = sorted((row for row in rows if row[LIFO]), key=itemgetter(DUE, SEQ), reverse=True)
    ordered += sorted((row for row in rows if not row[LIFO]), key=itemgetter(PRIORITY, DUE, SEQ))
    ordered.sort(key=itemgetter(TURN))
    return ordered


def _orphans(step: Step, app: str, request: TakeOver) -> list[int]:
    """Which jobs are to be taken over."""
    if request.workers is None:
        rows = step.rows(_EXPIRED, app, step.now, request.limit)
    else:
        rows = step.rows(_HELD_BY, app, msgspec.json.encode(request.workers).decode(), request.limit)
    return [seq for (seq,) in rows]


def _readable(step: Step, app: str, claimed: list[tuple[int, JobRecord]]) -> list[JobRecord]:
    """Claimed records that can be run. One that cannot be read fails now, and its columns stay as they are."""
    readable = []
    for seq, record in claimed:
        if record.outcome != UNDECODABLE:
            readable.append(record)
            continue
        fail = "UPDATE wf_job SET state = 6, finished_ms = ?, settled = claim, lease_until_ms = NULL WHERE seq = ?"
        step.change(fail, step.now, seq)
        step.change(_MARK, seq, UNDECODABLE)
        ended(step, app, seq)
    return readable
