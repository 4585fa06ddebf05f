"""What the end of a job allows: a parked job's turn, and a free slot of a limited queue."""

from __future__ import annotations

from workfleet.model.jobs import Failure

from ..wakes import queue_topic
from .lane import Step
from .limiting import limits_concurrency, limits_of
from .records import json_of

_PARKED = """
SELECT j.seq, q.name FROM wf_job j INDEXED BY wf_job_parked JOIN wf_queue q ON q.queue = j.queue
WHERE j.parked = 1 AND j.app = ?1 AND j.unique_key = ?2 AND NOT EXISTS (
  SELECT 1 FROM wf_job o INDEXED BY wf_job_claimed_key
  WHERE o.app = ?1 AND o.unique_key = ?2 AND o.unique_key IS NOT NULL AND o.state < 5 AND o.key_until > 0
    AND o.started_ms IS NOT NULL)
ORDER BY j.seq LIMIT 1
"""
_END = """
UPDATE wf_job SET state = 6, parked = 0, finished_ms = ?, settled = coalesce(settled, 0) WHERE seq = ?
"""
"""As if a claim that nobody had settled it, so that its next run adds to what this leaves behind."""
_ENDED = """
INSERT INTO wf_run (seq, outcome, failure, attempts) VALUES (?1, ?2, ?3, 0)
ON CONFLICT (seq) DO UPDATE SET outcome = ?2, failure = ?3
"""


def ended(step: Step, app: str, seq: int) -> None:
    """A job has finished: who waits for its key goes on."""
    row = step.row("SELECT unique_key FROM wf_job WHERE seq = ?", seq)
    if row is not None and row[0] is not None:
        release_key(step, app, row[0])


def end_unrun(step: Step, app: str, seq: int, key: str | None, failure: Failure) -> None:
    """A job that nobody runs fails; its outcome is the failure's code."""
    step.change(_END, step.now, seq)
    step.change(_ENDED, seq, failure.code, json_of(failure))
    if key is not None:
        release_key(step, app, key)


def release_key(step: Step, app: str, key: str) -> None:
    """The first job that is parked behind a key need not wait any longer, if no claimed job of the key is left."""
    parked = step.row(_PARKED, app, key)
    if parked is not None:
        release = "UPDATE wf_job SET parked = 0, state = iif(due_ms > ?, 2, priority > 0) WHERE seq = ?"
        step.change(release, step.now, parked[0])
        step.topics.add(queue_topic(parked[1]))


def blocked(step: Step, app: str, key: str) -> bool:
    """Whether a job that was claimed under a key, which it holds no more, has not finished."""
    claimed = """
        SELECT 1 FROM wf_job INDEXED BY wf_job_claimed_key
        WHERE app = ? AND unique_key = ? AND unique_key IS NOT NULL AND state < 5 AND key_until > 0
          AND started_ms IS NOT NULL
    """
    return step.row(claimed, app, key) is not None


def limited_queues(step: Step, app: str) -> dict[int, tuple[str, bool]]:
    """Queues that have limits: their names, and whether one is on how many run at once, so that an end wakes."""
    found = "SELECT queue, name, limits FROM wf_queue INDEXED BY wf_queue_limited WHERE limits IS NOT NULL AND app = ?"
    queues: dict[int, tuple[str, bool]] = {}
    for queue, name, stored in step.rows(found, app):
        queues[queue] = (name, limits_concurrency(limits_of(stored)))
    return queues
