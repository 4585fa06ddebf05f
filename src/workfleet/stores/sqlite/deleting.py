"""Deleting jobs: by id, by queue and state, and by the rules of the clean-up. What cannot be read is never pruned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from workfleet.model.jobs import UNDECODABLE, JobState
from workfleet.ports.jobs import PruneRule

from .ending import release_key
from .lane import Step
from .schema import STATE_NUMBERS

_NOTES_KEPT_MS = 600_000
"""How long a claim is remembered after its jobs were settled, to know a repeated call."""
_NOTES_LIMIT = 50_000
_PARTS = ("wf_job", "wf_body", "wf_run", "wf_report", "wf_log", "wf_tag", "wf_replaced")

_READABLE = f"NOT EXISTS (SELECT 1 FROM wf_run r WHERE r.seq = j.seq AND r.outcome = '{UNDECODABLE}')"
_TOO_OLD = f"""
SELECT seq FROM wf_job j INDEXED BY wf_job_finished
WHERE queue = ? AND state = ? AND state > 4 AND kept = '' AND housekeeping = ? AND finished_ms < ?
  AND {_READABLE} ORDER BY finished_ms, seq LIMIT ?
"""
_TOO_MANY = f"""
SELECT seq FROM (
  SELECT seq, finished_ms FROM wf_job INDEXED BY wf_job_finished
  WHERE queue = ? AND state = ? AND state > 4 AND kept = '' AND housekeeping = ?
  ORDER BY finished_ms DESC, seq DESC LIMIT -1 OFFSET ?
) j WHERE {_READABLE} ORDER BY finished_ms, seq LIMIT ?
"""
_NEXT_OWN = """
SELECT min(kept) FROM wf_job INDEXED BY wf_job_finished WHERE queue = ? AND state = ? AND state > 4 AND kept > ?
"""
_OWN_TOO_OLD = f"""
SELECT seq FROM wf_job j INDEXED BY wf_job_finished
WHERE queue = ? AND state = ? AND state > 4 AND kept = ? AND housekeeping IN (0, 1) AND finished_ms < ?
  AND {_READABLE} ORDER BY finished_ms, seq LIMIT ?
"""
_OWN_TOO_MANY = f"""
SELECT seq FROM (
  SELECT seq, finished_ms FROM wf_job INDEXED BY wf_job_finished
  WHERE queue = ? AND state = ? AND state > 4 AND kept = ?
  ORDER BY finished_ms DESC, seq DESC LIMIT -1 OFFSET ?
) j WHERE {_READABLE} ORDER BY finished_ms, seq LIMIT ?
"""


def delete_jobs(step: Step, app: str, ids: Sequence[str]) -> list[bool]:
    """Delete jobs that are not active. The meaning is `JobStore.delete`'s."""
    return [_delete(step, app, job_id) for job_id in ids]


def purge_jobs(step: Step, app: str, queue: str, states: Sequence[JobState], limit: int) -> int:
    """Delete a queue's jobs in these states. The meaning is `JobStore.purge`'s."""
    numbers = ", ".join(str(STATE_NUMBERS[state]) for state in states if state is not JobState.ACTIVE)
    # In the order of the table, which is that of enqueueing: what goes first is found first.
    doomed = f"""
        SELECT seq, unique_key, state FROM wf_job NOT INDEXED
        WHERE queue = (SELECT queue FROM wf_queue WHERE app = ? AND name = ?) AND state IN ({numbers})
        ORDER BY seq LIMIT ?
    """
    rows = step.rows(doomed, app, queue, max(limit, 0))
    _delete_all(step, [row[0] for row in rows])
    for key in dict.fromkeys(key for _, key, state in rows if key is not None and state < 5):
        release_key(step, app, key)
    return len(rows)


def prune_jobs(step: Step, app: str, rules: Sequence[PruneRule], limit: int) -> int:
    """Delete finished jobs by the rules and by their own, and what has expired of the store's own."""
    doomed: dict[int, None] = {}
    queues = [row[0] for row in step.rows("SELECT queue FROM wf_queue WHERE app = ?", app)]
    for queue in queues:
        for rule in rules:
            doomed |= dict.fromkeys(_by_rule(step, queue, rule, limit))
    for queue in queues:
        for state in (JobState.COMPLETED, JobState.FAILED):
            doomed |= dict.fromkeys(_by_their_own(step, queue, STATE_NUMBERS[state], limit))
    seqs = list(doomed)[:limit]
    _delete_all(step, seqs)
    _forget(step, app)
    return len(seqs)


def _delete(step: Step, app: str, job_id: str) -> bool:
    row = step.row("SELECT seq, unique_key, state FROM wf_job WHERE app = ? AND id = ? AND state != 3", app, job_id)
    if row is None:
        return False
    seq, key, state = row
    _delete_all(step, [seq])
    if key is not None and state < 5:
        release_key(step, app, key)
    return True


def _delete_all(step: Step, seqs: Sequence[int]) -> None:
    chosen = msgspec.json.encode(seqs).decode()
    for table in _PARTS:
        step.change(f"DELETE FROM {table} WHERE seq IN (SELECT value FROM json_each(?))", chosen)


def _by_rule(step: Step, queue: int, rule: PruneRule, limit: int) -> Iterable[int]:
    """What a rule deletes of a queue, the oldest first."""
    common = (queue, STATE_NUMBERS[rule.state], int(rule.housekeeping))
    if rule.age_ms is not None:
        yield from _seqs(step, _TOO_OLD, *common, step.now - rule.age_ms, limit)
    if rule.count is not None:
        yield from _seqs(step, _TOO_MANY, *common, rule.count, limit)


def _by_their_own(step: Step, queue: int, state: int, limit: int) -> Iterable[int]:
    """What jobs with rules of their own say: each of these rules is one look into the index further."""
    rule = ""
    while (row := step.row(_NEXT_OWN, queue, state, rule)) is not None and row[0] is not None:
        rule = row[0]
        age_ms, count = (int(most) if most else None for most in rule.split("/"))
        if age_ms is not None:
            yield from _seqs(step, _OWN_TOO_OLD, queue, state, rule, step.now - age_ms, limit)
        if count is not None:
            yield from _seqs(step, _OWN_TOO_MANY, queue, state, rule, count, limit)


def _seqs(step: Step, sql: str, *values: object) -> list[int]:
    return [seq for (seq,) in step.rows(sql, *values)]


def _forget(step: Step, app: str) -> None:
    """Delete expired keys, locks and starts, and claims that nobody will ask about again."""
    for table in ("wf_key", "wf_lock", "wf_hold"):
        step.change(f"DELETE FROM {table} WHERE app = ? AND expires_ms <= ?", app, step.now)
    starts = "DELETE FROM wf_start WHERE until_ms <= ? AND queue IN (SELECT queue FROM wf_queue WHERE app = ?)"
    step.change(starts, step.now, app)
    claims = """
        DELETE FROM wf_claim WHERE claim IN (
          SELECT claim FROM wf_claim c WHERE app = ? AND granted_ms < ?
            AND NOT EXISTS (SELECT 1 FROM wf_job j WHERE j.claim = c.claim AND j.state = 3)
          ORDER BY claim LIMIT ?)
    """
    step.change(claims, app, step.now - _NOTES_KEPT_MS, _NOTES_LIMIT)
