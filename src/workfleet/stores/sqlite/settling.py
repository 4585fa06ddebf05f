"""What runs leave behind: settlements, and reports from running jobs."""

from __future__ import annotations

from collections.abc import Sequence

from workfleet.model.jobs import FINISHED, HISTORY_LIMIT, Claim, JobState
from workfleet.model.outcome import Outcome, Settlement

from ..wakes import queue_topic
from .adding import add_jobs
from .claiming import claim_number
from .lane import Row, Step
from .records import clean_text, json_of
from .schema import STATE_NUMBERS

_SETTLE = """
UPDATE wf_job SET
  state = CASE WHEN ?1 < 2 THEN priority > 0 ELSE ?1 END, attempts_made = ?2, crashes = ?3, deferrals = ?4,
  due_ms = coalesce(?5, due_ms), finished_ms = ?6, lease_until_ms = NULL, ran_by = NULL, settled = claim
WHERE seq = ?7 AND id = ?8 AND claim = ?9 AND state = 3
"""
_ADD_RUN = f"""
INSERT INTO wf_run (seq, outcome, result, failure, attempts, history) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (seq) DO UPDATE SET outcome = excluded.outcome, result = excluded.result, failure = excluded.failure,
  attempts = min(attempts + excluded.attempts, {HISTORY_LIMIT}),
  history = CASE
    WHEN excluded.attempts = 0 THEN history
    WHEN attempts = 0 THEN excluded.history
    WHEN attempts < {HISTORY_LIMIT} THEN history || char(10) || excluded.history
    ELSE substr(history, instr(history, char(10)) + 1) || char(10) || excluded.history
  END
"""
"""JSON text has no raw line feed, so one starts a new attempt; at the limit the first line goes."""
_UPSERT_REPORT = """
INSERT INTO wf_run (seq, progress, call) VALUES (?, ?, ?)
ON CONFLICT (seq) DO UPDATE SET progress = coalesce(excluded.progress, progress), call = excluded.call
"""


def settle_jobs(step: Step, app: str, settlements: Sequence[Settlement]) -> list[bool]:
    """Apply outcomes under their claims. The meaning is `JobStore.settle`'s."""
    numbers = {token: claim_number(step, app, token) for token in {s.claim.token for s in settlements}}
    applied: list[bool] = []
    runs: list[Row] = []
    for settlement in settlements:
        claim, outcome = settlement.claim, settlement.outcome
        seq, number = _seq(step, app, claim.job_id), numbers[claim.token]
        if seq is not None and step.change(_SETTLE, *_changes(step, outcome), seq, claim.job_id, number):
            applied.append(True)
            runs.append(_run(seq, outcome))
            if outcome.state not in FINISHED:
                step.topics.add(queue_topic(_queue_of(step, seq)))
            if outcome.follow_up:
                add_jobs(step, app, outcome.follow_up, call=None)
        else:
            applied.append(number is not None and _settled_before(step, app, claim, number))
    step.change_many(_ADD_RUN, runs)
    return applied


def report_run(
    step: Step, app: str, claim: Claim, *, progress: bytes | None, lines: Sequence[str], call: str | None
) -> bool:
    """Keep progress and log lines. The meaning is `JobStore.report`'s."""
    found = """
        SELECT j.seq, r.call FROM wf_job j JOIN wf_claim c ON c.claim = j.claim LEFT JOIN wf_run r ON r.seq = j.seq
        WHERE j.app = ? AND j.id = ? AND j.state = 3 AND c.token = ?
    """
    row = step.row(found, app, claim.job_id, claim.token)
    if row is None:
        return False
    seq, last_call = row
    if call is None or call != last_call:
        step.change(_UPSERT_REPORT, seq, progress, call)
        last = step.row("SELECT coalesce(max(line_no), 0) FROM wf_log WHERE seq = ?", seq)
        numbered = enumerate(map(clean_text, lines), 1 + (last or (0,))[0])
        step.change_many(
            "INSERT INTO wf_log (seq, line_no, line) VALUES (?, ?, ?)", [(seq, n, line) for n, line in numbered]
        )
    return True


def _seq(step: Step, app: str, job_id: str) -> int | None:
    """Where a job is. What is remembered may be outdated; the update compares the id once more."""
    known = step.memo.seqs.pop(job_id, None)
    if known is None:
        row = step.row("SELECT seq FROM wf_job WHERE app = ? AND id = ?", app, job_id)
        known = None if row is None else row[0]
    return known


def _changes(step: Step, outcome: Outcome) -> Row:
    """State, counters, due time and finish time after an outcome. A due time of None keeps the job's place."""
    state, due_ms = outcome.state, None
    if state is JobState.DELAYED:
        due_ms = step.now + max(outcome.delay_ms, 0)
        state = JobState.DELAYED if due_ms > step.now else JobState.WAITING
    finished_ms = step.now if state in FINISHED else None
    return (STATE_NUMBERS[state], outcome.attempts_made, outcome.crashes, outcome.deferrals, due_ms, finished_ms)


def _run(seq: int, outcome: Outcome) -> Row:
    failure = None if outcome.failure is None else json_of(outcome.failure)
    if outcome.attempt is None:
        return (seq, outcome.code, outcome.result, failure, 0, None)
    return (seq, outcome.code, outcome.result, failure, 1, json_of(outcome.attempt).decode())


def _queue_of(step: Step, seq: int) -> str:
    row = step.row("SELECT q.name FROM wf_job j JOIN wf_queue q ON q.queue = j.queue WHERE j.seq = ?", seq)
    assert row is not None
    name: str = row[0]
    return name


def _settled_before(step: Step, app: str, claim: Claim, number: int) -> bool:
    """Whether it was this very claim that settled the job last: then this is a repeat."""
    row = step.row("SELECT settled FROM wf_job WHERE app = ? AND id = ?", app, claim.job_id)
    return row is not None and row[0] == number
