"""What runs leave behind: settlements, and reports from running jobs."""

from __future__ import annotations

from collections.abc import Sequence

from workfleet.model.jobs import FINISHED, HISTORY_LIMIT, Attempt, Claim, JobState
from workfleet.model.outcome import Outcome, Settlement, left_out, left_out_by, result_with

from ..texts import clean_text
from ..wakes import queue_topic
from .adding import add_jobs
from .claims import claim_note
from .ending import ended, limited_queues
from .lane import Held, Row, Step
from .records import json_of, json_of_attempts, json_of_numbers
from .schema import STATE_NUMBERS

_MINE = "seq = ? AND id = ? AND claim = ? AND state = 3"
_FINISH = f"""
UPDATE wf_job SET state = ?, attempts_made = ?, crashes = ?, deferrals = ?, suspicions = ?, finished_ms = ?,
lease_until_ms = NULL, ran_by = NULL, settled = claim WHERE {_MINE}
"""
_RENOTE_MS = 60_000
_ALIKE = "seq IN (SELECT value FROM json_each(?)) AND claim = ? AND state = 3"
_STILL_HELD = f"SELECT count(*) FROM wf_job WHERE {_ALIKE}"
_FINISH_ALIKE = f"""
UPDATE wf_job SET state = ?, attempts_made = ?, crashes = ?, deferrals = ?, suspicions = ?, finished_ms = ?,
lease_until_ms = NULL, ran_by = NULL, settled = claim WHERE {_ALIKE}
"""
_PUT_BACK = f"""
UPDATE wf_job SET state = iif(? < 2, priority > 0, ?), attempts_made = ?, crashes = ?, deferrals = ?, suspicions = ?,
due_ms = coalesce(?, due_ms), lease_until_ms = NULL, ran_by = NULL, settled = claim WHERE {_MINE}
"""
_INTO_RUN = "INSERT INTO wf_run (seq, outcome, result, failure, attempts, history)"
_RUNS_ALIKE = f"{_INTO_RUN} SELECT CAST(key AS INTEGER), ?, ?, NULL, 1, value FROM json_each(?)"
_FEW = 8
"""Rows that a statement of their own is not worth."""
_NEXT_RUN = f"""
UPDATE wf_run SET outcome = ?2, result = ?3, failure = ?4, attempts = min(attempts + ?5, {HISTORY_LIMIT}),
  history = CASE
    WHEN ?5 = 0 THEN history
    WHEN attempts = 0 THEN ?6
    WHEN attempts < {HISTORY_LIMIT} THEN history || char(10) || ?6
    ELSE substr(history, instr(history, char(10)) + 1) || char(10) || ?6
  END
WHERE seq = ?1
"""
"""JSON has no raw line feed, so one starts a new attempt; at the limit the first line goes."""
_REPORT = """
INSERT INTO wf_report (seq, progress, call) VALUES (?, ?, ?)
ON CONFLICT (seq) DO UPDATE SET progress = coalesce(excluded.progress, progress), call = excluded.call
"""


LeftOut = dict[int, tuple[int, ...]]
"""As `Settled.left_out`."""


def settle_jobs(step: Step, app: str, settlements: Sequence[Settlement]) -> tuple[list[bool], LeftOut]:
    """Apply outcomes under their claims: which are, and what was left out. The meaning is `JobStore.settle`'s."""
    numbers = {token: _number(step, app, token) for token in {s.claim.token for s in settlements}}
    limited = limited_queues(step, app)
    if not limited and _settle_alike(step, settlements, numbers):
        return [True] * len(settlements), {}
    first_runs: list[Row] = []
    applied: list[bool] = []
    others: LeftOut = {}
    for settlement in settlements:
        claim, outcome = settlement.claim, settlement.outcome
        number, place = numbers[claim.token], _place(step, app, claim.job_id)
        if number is None or place is None:
            applied.append(False)
            continue
        seq, settled, keyed = place
        if _apply(step, outcome, seq, claim.job_id, number):
            applied.append(True)
            if settled is None:
                first_runs.append(_run(seq, outcome))
            else:
                step.change(_NEXT_RUN, *_run(seq, outcome))
            if keyed and outcome.state in FINISHED:
                ended(step, app, seq)
            if limited and outcome.state in FINISHED:
                _wake_limited(step, seq, limited)
            if outcome.follow_up:
                step.insert(_INTO_RUN, first_runs)
                first_runs.clear()
                others[len(applied) - 1] = _follow_up(step, app, seq, outcome)
        else:
            # A repeat of the call that settled it, if this very claim did so last.
            again = _place(step, app, claim.job_id)
            repeated = again is not None and again[1] == number
            applied.append(repeated)
            if again is not None and repeated and outcome.follow_up:
                row = step.row("SELECT result FROM wf_run WHERE seq = ?", again[0])
                others[len(applied) - 1] = left_out_by(outcome, row[0] if row else None)
    step.insert(_INTO_RUN, first_runs)
    return applied, {place: out for place, out in others.items() if out}


def _follow_up(step: Step, app: str, seq: int, outcome: Outcome) -> tuple[int, ...]:
    """Add what a run made, and let its result name who stands for it. Returns what was left out."""
    answers = add_jobs(step, app, outcome.follow_up, call=None)
    result = result_with(outcome, [added.id for added in answers])
    if result != outcome.result:
        step.change("UPDATE wf_run SET result = ? WHERE seq = ?", result, seq)
    return left_out(answers)


def report_run(
    step: Step, app: str, claim: Claim, *, progress: bytes | None, lines: Sequence[str], call: str | None
) -> bool:
    """Keep progress and log lines. The meaning is `JobStore.report`'s."""
    found = """
        SELECT j.seq, p.call FROM wf_job j JOIN wf_claim c ON c.claim = j.claim LEFT JOIN wf_report p ON p.seq = j.seq
        WHERE j.app = ? AND j.id = ? AND j.state = 3 AND c.token = ?
    """
    row = step.row(found, app, claim.job_id, claim.token)
    if row is None:
        return False
    seq, last_call = row
    if call is None or call != last_call:
        step.change(_REPORT, seq, progress, call)
        last = step.row("SELECT coalesce(max(line_no), 0) FROM wf_log WHERE seq = ?", seq)
        numbered = enumerate(map(clean_text, lines), 1 + (last or (0,))[0])
        step.change_many(
            "INSERT INTO wf_log (seq, line_no, line) VALUES (?, ?, ?)", [(seq, n, line) for n, line in numbered]
        )
    return True


def _number(step: Step, app: str, token: str) -> int | None:
    """The number of a claim. Its note is kept from now on: this call is known again, after however long a run."""
    note = claim_note(step, app, token)
    if note is None:
        return None
    number, since_ms = note
    if step.now - since_ms > _RENOTE_MS:
        step.change("UPDATE wf_claim SET granted_ms = ? WHERE claim = ?", step.now, number)
        step.memo.notes.pop(token, None)
    return number


def _settle_alike(step: Step, settlements: Sequence[Settlement], numbers: dict[str, int | None]) -> bool:
    """The usual case in few statements: first runs that finish and ask for nothing else, grouped by what is written.

    False, with nothing done, where one is not like that, or is not held any more: then each is looked at by itself."""
    held = step.memo.held
    groups: dict[tuple[int | None, ...], list[int]] = {}
    for settlement in settlements:
        outcome = settlement.outcome
        place = held.get(settlement.claim.job_id)
        if place is None or place[1] is not None or place[2] or outcome.follow_up or outcome.state not in FINISHED:
            return False
        counters = (outcome.attempts_made, outcome.crashes, outcome.deferrals, outcome.suspicions)
        group = (numbers[settlement.claim.token], STATE_NUMBERS[outcome.state], *counters)
        groups.setdefault(group, []).append(place[0])
    chosen = [(group, len(seqs), json_of_numbers(seqs)) for group, seqs in groups.items()]
    if any(step.row(_STILL_HELD, seqs, group[0]) != (count,) for group, count, seqs in chosen):
        return False
    for (number, *facts), _, seqs in chosen:
        step.change(_FINISH_ALIKE, *facts, step.now, seqs, number)
    _insert_runs(step, [(held.pop(s.claim.job_id)[0], s.outcome) for s in settlements])
    return True


def _insert_runs(step: Step, runs: Sequence[tuple[int, Outcome]]) -> None:
    """What first runs leave behind. Most differ in their history only, which is then one text for many: binding each
    value of each row takes the interpreter from the event loop for longer."""
    alike: dict[tuple[str, bytes | None], dict[int, Attempt]] = {}
    others: list[Row] = []
    for seq, outcome in runs:
        if outcome.attempt is None or outcome.failure is not None:
            others.append(_run(seq, outcome))
        else:
            alike.setdefault((outcome.code, outcome.result), {})[seq] = outcome.attempt
    for (code, result), attempts in alike.items():
        if len(attempts) >= _FEW:
            step.change(_RUNS_ALIKE, code, result, json_of_attempts(attempts))
        else:
            others += [(seq, code, result, None, 1, json_of(attempt).decode()) for seq, attempt in attempts.items()]
    step.insert(_INTO_RUN, others)


def _place(step: Step, app: str, job_id: str) -> Held | None:
    """Where a job is. Remembered at its claim; the update checks the id once more."""
    known = step.memo.held.pop(job_id, None)
    if known is not None:
        return known
    found = "SELECT seq, settled, key_until FROM wf_job WHERE app = ? AND id = ?"
    row = step.row(found, app, job_id)
    return None if row is None else (row[0], row[1], row[2])


def _wake_limited(step: Step, seq: int, limited: dict[int, tuple[str, bool]]) -> None:
    """A job of a queue whose limits may let another one start now has finished."""
    row = step.row("SELECT queue FROM wf_job WHERE seq = ?", seq)
    name, slot_is_free = limited.get(row[0] if row else -1, ("", False))
    if slot_is_free:
        step.topics.add(queue_topic(name))


def _apply(step: Step, outcome: Outcome, seq: int, job_id: str, number: int) -> bool:
    """Change the job's row, if the claim still holds it."""
    counters = (outcome.attempts_made, outcome.crashes, outcome.deferrals, outcome.suspicions)
    mine = (seq, job_id, number)
    state = outcome.state
    if state in FINISHED:
        return bool(step.change(_FINISH, STATE_NUMBERS[state], *counters, step.now, *mine))
    due_ms = None  # keeps its place
    if state is JobState.DELAYED:
        due_ms = step.now + max(outcome.delay_ms, 0)
        state = JobState.DELAYED if due_ms > step.now else JobState.WAITING
    step.topics.add(queue_topic(_queue_of(step, seq)))
    return bool(step.change(_PUT_BACK, STATE_NUMBERS[state], STATE_NUMBERS[state], *counters, due_ms, *mine))


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
