"""`decide`: what follows from each way in which a run ends."""

from __future__ import annotations

import pytest

from workfleet.model.jobs import Failure, JobRecord, JobState
from workfleet.model.outcome import DEFER_MS, Ended, EndKind, Outcome, RunPolicy, decide
from workfleet.model.policy import Backoff, exponential, fixed, linear

POLICY = RunPolicy(attempts=3, backoff=fixed("5s"), max_crashes=3, max_deferrals=1)


def job(**facts: object) -> JobRecord:
    return JobRecord(id="1", queue="q", name="n", state=JobState.ACTIVE, token="t", started_ms=100, worker="w", **facts)  # type: ignore[arg-type]


def after(kind: EndKind, record: JobRecord | None = None, **facts: object) -> Outcome:
    ended = Ended(kind=kind, failure=Failure("raised", "boom"), **facts)  # type: ignore[arg-type]
    return decide(ended, record or job(), POLICY, now_ms=1_100, draw=0.5)


@pytest.mark.parametrize(
    ("kind", "made", "state", "code", "delay_ms", "made_after"),
    [
        ("returned", 0, JobState.COMPLETED, "completed", 0, 1),
        ("raised", 0, JobState.DELAYED, "failed", 5_000, 1),
        ("raised", 1, JobState.DELAYED, "failed", 5_000, 2),
        ("raised", 2, JobState.FAILED, "failed", 0, 3),
        ("timed_out", 0, JobState.DELAYED, "timed_out", 5_000, 1),
        ("timed_out", 2, JobState.FAILED, "timed_out", 0, 3),
        ("retry", 0, JobState.DELAYED, "retry", 5_000, 1),
        ("failed", 0, JobState.FAILED, "failed", 0, 1),
        ("cancelled", 0, JobState.FAILED, "cancelled", 0, 1),
        ("skipped", 0, JobState.COMPLETED, "skipped", 0, 1),
        ("snoozed", 0, JobState.DELAYED, "snoozed", 0, 0),
        ("given_back", 1, JobState.WAITING, "given_back", 0, 1),
    ],
)
def test_what_follows(kind: EndKind, made: int, state: JobState, code: str, delay_ms: int, made_after: int) -> None:
    outcome = after(kind, job(attempts_made=made))
    assert (outcome.state, outcome.code, outcome.delay_ms) == (state, code, delay_ms)
    assert outcome.attempts_made == made_after


def test_a_handler_says_when_it_wants_to_run_again() -> None:
    assert after("retry", after_ms=42).delay_ms == 42
    assert after("snoozed", after_ms=42).delay_ms == 42


def test_crashes_are_counted_apart_from_attempts_and_the_third_fails_the_job() -> None:
    crashes = [after("crashed", job(crashes=n, attempts_made=1)) for n in range(3)]
    assert [c.state for c in crashes] == [JobState.WAITING, JobState.WAITING, JobState.FAILED]
    assert [c.crashes for c in crashes] == [1, 2, 3]
    assert {c.attempts_made for c in crashes} == {1}


def test_a_crashed_job_with_a_priority_goes_back_among_the_prioritised() -> None:
    assert after("crashed", job(priority=5)).state is JobState.PRIORITIZED


def test_an_unknown_job_is_put_back_ten_times_as_shipped() -> None:
    shipped = [
        decide(Ended(kind="unknown_job"), job(deferrals=n), RunPolicy(), now_ms=0, draw=0.0).state for n in range(11)
    ]
    assert shipped == [*[JobState.DELAYED] * 10, JobState.FAILED]


def test_an_unknown_job_is_put_back_and_then_failed() -> None:
    first, second = (after("unknown_job", job(deferrals=n)) for n in range(2))
    assert (first.state, first.delay_ms, first.deferrals) == (JobState.DELAYED, DEFER_MS, 1)
    assert (second.state, second.code) == (JobState.FAILED, "unknown_job")


def test_only_a_completed_run_enqueues_what_it_returned() -> None:
    follow_up = (JobRecord(id="2", queue="q", name="m"),)
    assert after("returned", follow_up=follow_up).follow_up == follow_up
    assert after("raised", follow_up=follow_up).follow_up == ()


def test_the_history_tells_the_attempt() -> None:
    attempt = after("raised", job(attempts_made=1)).attempt
    assert attempt is not None
    assert (attempt.number, attempt.outcome, attempt.started_ms, attempt.ended_ms) == (2, "failed", 100, 1_100)
    assert attempt.failure == Failure("raised", "boom")
    assert after("given_back").attempt is None


@pytest.mark.parametrize(
    ("backoff", "waits"),
    [
        (fixed("2s"), [2_000, 2_000, 2_000]),
        (linear("2s", cap="5s"), [2_000, 4_000, 5_000]),
        (exponential("1s", cap="3s", jitter="none"), [1_000, 2_000, 3_000]),
        (Backoff("exponential", 1_000, 100_000, "none", 3.0), [1_000, 3_000, 9_000]),
    ],
)
def test_backoffs(backoff: Backoff, waits: list[int]) -> None:
    assert [backoff.delay_ms(n, 0.9) for n in (1, 2, 3)] == waits


def test_full_jitter_draws_between_nothing_and_the_wait() -> None:
    assert [exponential("1s").delay_ms(1, draw) for draw in (0.0, 0.5, 0.999)] == [0, 500, 999]


def test_ten_thousand_attempts_stay_at_the_cap() -> None:
    assert exponential("1s", cap="10m", jitter="none").delay_ms(10_000, 0.0) == 600_000


def test_a_share_of_a_wait_is_drawn() -> None:
    """As BullMQ's jitter."""
    half = exponential("1s", jitter=0.5)
    assert [half.delay_ms(2, draw) for draw in (0.0, 0.5, 1.0)] == [1_000, 1_500, 2_000]
    assert fixed("1s", jitter=0.25).delay_ms(1, 0.0) == 750
    assert fixed("1s", jitter=0).delay_ms(1, 0.0) == 1_000
    assert fixed("1s", jitter=1).delay_ms(1, 0.0) == 0


def test_a_crash_limit_reached_in_company_fails_after_five_tries_apart() -> None:
    tries = [after("crashed", job(crashes=2, suspicions=n), in_company=True) for n in range(6)]
    assert [t.state for t in tries] == [JobState.DELAYED] * 5 + [JobState.FAILED]
    assert [t.delay_ms for t in tries] == [2_500, 5_000, 10_000, 20_000, 40_000, 0]
    assert [t.crashes for t in tries] == [2] * 5 + [3]
