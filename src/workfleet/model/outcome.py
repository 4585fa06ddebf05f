"""How a run ended, and what follows: `Ended -> decide() -> Outcome`. The one place of retry policy.

A normal return, an exception, a timeout, a crash, a cancellation and a give-back all go through `decide`, a pure
function; the store only applies the outcome. This file must not know any store or executor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from .jobs import Attempt, Claim, Enqueued, Failure, JobRecord, JobState
from .policy import DEFAULT_BACKOFF, Backoff

EndKind = Literal[
    "returned",
    "raised",
    "timed_out",
    "crashed",
    "failed",
    "cancelled",
    "retry",
    "snoozed",
    "skipped",
    "given_back",
    "unknown_job",
    "expired",
]


class Ended(Struct, frozen=True, kw_only=True, gc=False):
    """How a run ended. `after_ms` is what the handler asked for; `follow_up` are the jobs that it returned."""

    kind: EndKind
    result: bytes | None = None
    follow_up: tuple[JobRecord, ...] = ()
    failure: Failure | None = None
    after_ms: int | None = None
    in_company: bool = False
    """Of a crash: other jobs ran in the same process, so nobody knows which of them ended it."""
    raised: tuple[str, ...] = ()
    """Of an exception: the qualified names of its class and that class's bases, in the order of their resolution."""


class RunPolicy(Struct, frozen=True, kw_only=True):
    """What applies to a run once the job's, the handler's and the module's options are merged."""

    attempts: int = 3
    backoff: Backoff = DEFAULT_BACKOFF
    timeout_ms: int | None = None
    max_crashes: int = 3
    max_deferrals: int = 10
    rules: dict[str, Backoff | None] = {}
    """Per exception, by qualified name: the wait before the next attempt, or None for no further one."""

    def backoff_for(self, ended: Ended) -> Backoff | None:
        """The wait after this end of a run; None when a rule says that it is not tried again."""
        return next((self.rules[name] for name in ended.raised if name in self.rules), self.backoff)


class Outcome(Struct, frozen=True, kw_only=True, gc=False):
    """What the store has to do with a job. `code` is the word for logs and history."""

    state: JobState
    code: str
    delay_ms: int = 0
    result: bytes | None = None
    failure: Failure | None = None
    attempts_made: int = 0
    crashes: int = 0
    deferrals: int = 0
    suspicions: int = 0
    follow_up: tuple[JobRecord, ...] = ()
    attempt: Attempt | None = None
    """What is added to the job's history, if anything."""


def result_with(outcome: Outcome, stand: Sequence[str]) -> bytes | None:
    """What is kept as the result. `stand` are the ids of those that stand for the outcome's follow-up jobs: their own,
    but of one whose unique key was held that of the holder."""
    own = [job.id for job in outcome.follow_up]
    return outcome.result if list(stand) == own else msgspec.json.encode(list(stand))


def left_out(answers: Sequence[Enqueued]) -> tuple[int, ...]:
    """The places of the follow-up jobs that the store has not added."""
    return tuple(place for place, answer in enumerate(answers) if not answer.created)


def left_out_by(outcome: Outcome, result: bytes | None) -> tuple[int, ...]:
    """The same as far as the kept result of the run says, which names who stands for each: for the repeat of a call
    whose answer was lost. None where it says nothing of them."""
    try:
        stand = msgspec.json.decode(result or b"[]", type=list[str])
    except msgspec.MsgspecError:
        return ()
    both = zip(outcome.follow_up, stand, strict=False)
    return tuple(place for place, (job, name) in enumerate(both) if job.id != name)


class Settlement(Struct, frozen=True, gc=False):
    """One outcome under the claim that permits it."""

    claim: Claim
    outcome: Outcome


DEFER_MS = 5_000
"""A job whose name nobody knows is put back this long: a rolling deploy may bring its handler."""

_SUSPICIONS, _APART_MS = 5, 2_500
"""How often a job that reached its crash limit in company is tried apart, and the first spread of these tries."""

GIVE_BACK = Ended(kind="given_back")
CANCELLED = Ended(kind="cancelled", failure=Failure("cancelled", "somebody has cancelled it"))


def decide(ended: Ended, job: JobRecord, policy: RunPolicy, *, now_ms: int, draw: float) -> Outcome:
    """What follows from the end of a run. `draw` is a random number in [0, 1) for the jitter."""
    if ended.kind == "returned":
        made = job.attempts_made + 1
        return Outcome(
            state=JobState.COMPLETED,
            code="completed",
            result=ended.result,
            attempts_made=made,
            crashes=job.crashes,
            deferrals=job.deferrals,
            suspicions=job.suspicions,
            follow_up=ended.follow_up,
            attempt=_attempt(job, "completed", None, now_ms),
        )
    if job.cancel_asked and ended.kind != "skipped":
        # Whatever else it came to: nobody wants it to run again.
        own = ended.failure if ended.kind in ("raised", "timed_out", "failed", "cancelled") else None
        ended = Ended(kind="cancelled", failure=own or CANCELLED.failure)
    made, crashes, deferrals, suspicions = job.attempts_made, job.crashes, job.deferrals, job.suspicions

    def outcome(state: JobState, code: str, *, delay_ms: int = 0, made: int = made) -> Outcome:
        return Outcome(
            state=state,
            code=code,
            delay_ms=delay_ms,
            failure=ended.failure,
            attempts_made=made,
            crashes=crashes,
            deferrals=deferrals,
            suspicions=suspicions,
            attempt=None if code == "given_back" else _attempt(job, code, ended.failure, now_ms),
        )

    ready = JobState.PRIORITIZED if job.priority else JobState.WAITING

    if ended.kind == "skipped":
        return outcome(JobState.COMPLETED, "skipped", made=made + 1)
    if ended.kind in ("failed", "cancelled"):
        return outcome(JobState.FAILED, ended.kind, made=made + 1)
    if ended.kind == "expired":
        return outcome(JobState.FAILED, "expired")
    if ended.kind == "given_back":
        return outcome(ready, "given_back")
    if ended.kind == "snoozed":
        return outcome(JobState.DELAYED, "snoozed", delay_ms=ended.after_ms or 0)
    if ended.kind == "crashed":
        crashes += 1
        if crashes >= policy.max_crashes and ended.in_company and suspicions < _SUSPICIONS:
            # One job may be taking the others down. Apart, each shows by itself what it does.
            suspicions, crashes = suspicions + 1, policy.max_crashes - 1
            return outcome(JobState.DELAYED, "crashed", delay_ms=round(draw * _APART_MS * 2**suspicions))
        if crashes >= policy.max_crashes:
            return outcome(JobState.FAILED, "crashed")
        return outcome(ready, "crashed")
    if ended.kind == "unknown_job":
        if deferrals >= policy.max_deferrals:
            return outcome(JobState.FAILED, "unknown_job")
        deferrals += 1
        return outcome(JobState.DELAYED, "unknown_job", delay_ms=DEFER_MS)
    return _after_failed_attempt(ended, policy, outcome(JobState.FAILED, _code(ended), made=made + 1), draw)


def _after_failed_attempt(ended: Ended, policy: RunPolicy, failed: Outcome, draw: float) -> Outcome:
    """An exception, a timeout or an asked-for retry: again while attempts are left, else failed."""
    backoff = policy.backoff_for(ended)
    if backoff is None or failed.attempts_made >= policy.attempts:
        return failed
    wait = ended.after_ms if ended.after_ms is not None else backoff.delay_ms(failed.attempts_made, draw)
    # No attempt waits in `waiting`: a retry is always `delayed`, so that it never overtakes by accident.
    return Outcome(
        state=JobState.DELAYED,
        code=failed.code,
        delay_ms=max(wait, 0),
        failure=failed.failure,
        attempts_made=failed.attempts_made,
        crashes=failed.crashes,
        deferrals=failed.deferrals,
        suspicions=failed.suspicions,
        attempt=failed.attempt,
    )


def _code(ended: Ended) -> str:
    return {"raised": "failed", "retry": "retry", "timed_out": "timed_out"}[ended.kind]


def _attempt(job: JobRecord, code: str, failure: Failure | None, now_ms: int) -> Attempt:
    """What the history keeps of this run."""
    return Attempt(
        number=job.attempts_made + 1,
        outcome=code,
        started_ms=job.started_ms or now_ms,
        ended_ms=now_ms,
        worker=job.worker or "",
        failure=failure,
    )
