"""Deleting jobs, with all their parts: by id, and by queue and state."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from workfleet.model.jobs import JobState

from .ending import release_key
from .lane import Step
from .schema import STATE_NUMBERS

_PARTS = ("wf_job", "wf_body", "wf_run", "wf_report", "wf_log", "wf_tag", "wf_replaced")


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
    delete_rows(step, [row[0] for row in rows])
    for key in dict.fromkeys(key for _, key, state in rows if key is not None and state < 5):
        release_key(step, app, key)
    return len(rows)


def _delete(step: Step, app: str, job_id: str) -> bool:
    row = step.row("SELECT seq, unique_key, state FROM wf_job WHERE app = ? AND id = ? AND state != 3", app, job_id)
    if row is None:
        return False
    seq, key, state = row
    delete_rows(step, [seq])
    if key is not None and state < 5:
        release_key(step, app, key)
    return True


def delete_rows(step: Step, seqs: Sequence[int]) -> None:
    """Delete jobs by number, and nothing that others may wait for."""
    chosen = msgspec.json.encode(seqs).decode()
    for table in _PARTS:
        step.change(f"DELETE FROM {table} WHERE seq IN (SELECT value FROM json_each(?))", chosen)
