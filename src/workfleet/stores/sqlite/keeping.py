"""What operators and the clean-up do with jobs that are over: run again, delete."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from workfleet.model.jobs import UNDECODABLE
from workfleet.ports.stores import PruneRule

from ..wakes import queue_topic
from .lane import Step
from .schema import STATE_NUMBERS

_NOTES_KEPT_MS = 600_000
"""How long a claim is remembered after its jobs were settled, to know a repeated call."""
_NOTES_LIMIT = 50_000

_RETRY = """
UPDATE OR IGNORE wf_job SET state = priority > 0, due_ms = ?, started_ms = NULL, finished_ms = NULL,
  attempts_made = 0, crashes = 0, deferrals = 0 WHERE app = ? AND id = ? AND state = 6
"""
_TOO_OLD = """
SELECT seq FROM wf_job j INDEXED BY wf_job_finished
WHERE queue = ?1 AND state = ?2 AND housekeeping = ?3 AND state > 4 AND finished_ms < ?4
  AND NOT EXISTS (SELECT 1 FROM wf_run r WHERE r.seq = j.seq AND r.outcome = ?6) ORDER BY finished_ms, seq LIMIT ?5
"""
_TOO_MANY = """
SELECT seq FROM (
  SELECT seq, finished_ms FROM wf_job INDEXED BY wf_job_finished
  WHERE queue = ?1 AND state = ?2 AND housekeeping = ?3 AND state > 4
  ORDER BY finished_ms DESC, seq DESC LIMIT -1 OFFSET ?4
) j WHERE NOT EXISTS (SELECT 1 FROM wf_run r WHERE r.seq = j.seq AND r.outcome = ?6) ORDER BY finished_ms, seq LIMIT ?5
"""


def retry_jobs(step: Step, app: str, ids: Sequence[str]) -> list[bool]:
    """Make failed jobs ready again. The meaning is `JobStore.retry`'s."""
    return [_retry(step, app, job_id) for job_id in ids]


def prune_jobs(step: Step, app: str, rules: Sequence[PruneRule], limit: int) -> int:
    """Delete finished jobs by the rules, and what has expired of the store's own."""
    doomed: dict[int, None] = {}
    for queue in [row[0] for row in step.rows("SELECT queue FROM wf_queue WHERE app = ?", app)]:
        for rule in rules:
            doomed |= dict.fromkeys(_doomed(step, queue, rule, limit))
    seqs = list(doomed)[:limit]
    chosen = msgspec.json.encode(seqs).decode()
    for table in ("wf_job", "wf_body", "wf_run", "wf_report", "wf_log"):
        step.change(f"DELETE FROM {table} WHERE seq IN (SELECT value FROM json_each(?))", chosen)
    _forget(step, app)
    return len(seqs)


def _retry(step: Step, app: str, job_id: str) -> bool:
    if not step.change(_RETRY, step.now, app, job_id):
        return False
    found = "SELECT j.seq, q.name FROM wf_job j JOIN wf_queue q ON q.queue = j.queue WHERE j.app = ? AND j.id = ?"
    row = step.row(found, app, job_id)
    assert row is not None
    step.change("UPDATE wf_run SET outcome = NULL, result = NULL, failure = NULL WHERE seq = ?", row[0])
    step.change("DELETE FROM wf_report WHERE seq = ?", row[0])
    step.topics.add(queue_topic(row[1]))
    return True


def _doomed(step: Step, queue: int, rule: PruneRule, limit: int) -> list[int]:
    """What a rule deletes of a queue, the oldest first. What cannot be read is never deleted."""
    common = (queue, STATE_NUMBERS[rule.state], int(rule.housekeeping))
    seqs: list[int] = []
    if rule.age_ms is not None:
        seqs += [seq for (seq,) in step.rows(_TOO_OLD, *common, step.now - rule.age_ms, limit, UNDECODABLE)]
    if rule.count is not None:
        seqs += [seq for (seq,) in step.rows(_TOO_MANY, *common, rule.count, limit, UNDECODABLE)]
    return seqs


def _forget(step: Step, app: str) -> None:
    """Delete expired keys and locks, and claims that nobody will ask about again."""
    step.change("DELETE FROM wf_key WHERE app = ? AND expires_ms <= ?", app, step.now)
    step.change("DELETE FROM wf_lock WHERE app = ? AND expires_ms <= ?", app, step.now)
    claims = """
        DELETE FROM wf_claim WHERE claim IN (
          SELECT claim FROM wf_claim c WHERE app = ? AND granted_ms < ?
            AND NOT EXISTS (SELECT 1 FROM wf_job j WHERE j.claim = c.claim AND j.state = 3)
          ORDER BY claim LIMIT ?)
    """
    step.change(claims, app, step.now - _NOTES_KEPT_MS, _NOTES_LIMIT)
