"""What a job and its handler say about failed attempts: rules per exception, own backoffs, expiry."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from tests.queues.rig import Rig, until
from workfleet.errors import CircuitOpen, PoolBusy, PoolFailed, RateLimited, RemoteError, WorkfleetError
from workfleet.events import BackoffFailed, JobClaimed, JobSettled
from workfleet.model.jobs import JobState
from workfleet.model.outcome import RunPolicy
from workfleet.model.policy import fixed, own_backoff


class Declined(ValueError):
    pass


@pytest.mark.parametrize(
    ("rules", "runs"),
    [
        ({}, 3),
        ({"ValueError": None}, 1),  # a base class's rule
        ({f"{__name__}.Declined": fixed("1ms"), "ValueError": None}, 3),  # the nearest class says it
        ({"KeyError": None}, 3),
    ],
)
@pytest.mark.parametrize("in_thread", [False, True])
async def test_the_nearest_class_with_a_rule_decides(
    rig: Rig, rules: dict[str, Any], runs: int, *, in_thread: bool
) -> None:
    ran = []

    async def declines(job: Any) -> None:
        ran.append(job.attempt)
        raise Declined("no")

    def declines_in_thread(job: Any) -> None:
        ran.append(job.attempt)
        raise Declined("no")

    policy = RunPolicy(attempts=3, backoff=fixed("1ms"), rules=rules)
    rig.on(declines_in_thread if in_thread else declines, name="declines", policy=policy)
    async with rig:
        record = await rig.finished(await rig.enqueue("declines"))
    assert ran == list(range(1, runs + 1))
    assert (record.state, record.attempts_made) == (JobState.FAILED, runs)


async def test_a_run_that_did_not_end_in_time_is_a_timeout_error(rig: Rig) -> None:
    ran = []

    async def slow(job: Any) -> None:
        ran.append(job.attempt)
        await asyncio.Event().wait()

    rig.on(slow, policy=RunPolicy(attempts=3, timeout_ms=20, rules={"TimeoutError": None}))
    async with rig:
        record = await rig.finished(await rig.enqueue("slow"))
    assert (ran, record.outcome, record.attempts_made) == ([1], "timed_out", 1)


async def test_what_a_child_could_not_send_has_the_name_that_it_had_there(rig: Rig) -> None:
    ran = []

    async def in_a_child(job: Any) -> None:
        ran.append(job.attempt)
        raise RemoteError("shop.errors.Declined", "no", "")

    rig.on(in_a_child, policy=RunPolicy(attempts=3, backoff=fixed("1ms"), rules={"shop.errors.Declined": None}))
    async with rig:
        record = await rig.finished(await rig.enqueue("in_a_child"))
    assert (ran, record.outcome) == ([1], "failed")


async def test_an_own_backoff_is_asked_with_the_attempt_and_the_error(rig: Rig) -> None:
    asked: list[tuple[int, str]] = []

    def tiers(attempt: int, error: BaseException | None) -> str:
        asked.append((attempt, type(error).__name__))
        return "2ms"

    async def fails(job: Any) -> None:
        raise Declined("no")

    rig.backoffs = {"tiers": tiers}
    rig.on(fails, policy=RunPolicy(attempts=3, backoff=own_backoff("tiers")))
    async with rig:
        record = await rig.finished(await rig.enqueue("fails"))
    assert asked == [(1, "Declined"), (2, "Declined"), (3, "Declined")]
    assert record.attempts_made == 3


@pytest.mark.parametrize(
    ("backoffs", "said"),
    [
        ({}, "no module of this application has a backoff 'tiers'"),
        ({"tiers": lambda _attempt, _error: "soon"}, "soon"),
        ({"tiers": lambda _attempt, _error: 1 / 0}, "ZeroDivisionError"),
    ],
)
async def test_an_own_backoff_that_gives_no_wait_is_told_and_the_default_taken(
    rig: Rig, backoffs: dict[str, Any], said: str
) -> None:
    async def fails(job: Any) -> None:
        raise Declined("no")

    rig.backoffs = backoffs
    rig.on(fails, policy=RunPolicy(attempts=5, backoff=own_backoff("tiers")))
    async with rig:
        job_id = await rig.enqueue("fails")
        await until(lambda: rig.exchange.totals["delayed"] == 1)
        record = await rig.record(job_id)
    (told,) = rig.told(BackoffFailed)
    assert said in told.error
    assert record.state is JobState.DELAYED
    assert record.due_ms - record.history[0].ended_ms <= 1_100  # half of the default's first second, as drawn


async def test_an_expired_job_is_never_started(rig: Rig) -> None:
    async def never(_job: Any) -> None:
        raise AssertionError("it has expired")

    rig.on(never)
    job_id = await rig.enqueue("never", expires_after_ms=0)
    async with rig:
        record = await rig.finished(job_id)
        await until(lambda: rig.exchange.totals == {"failed": 1})
    assert (record.state, record.outcome, record.attempts_made) == (JobState.FAILED, "expired", 0)
    assert record.failure is not None
    assert record.failure.message == "it was not started before it expired"
    assert rig.told(JobClaimed) == []


async def test_a_job_that_expires_later_runs(rig: Rig) -> None:
    async def runs(_job: Any) -> int:
        return 1

    rig.on(runs)
    async with rig:
        record = await rig.finished(await rig.enqueue("runs", expires_after_ms=60_000))
    assert (record.state, record.result) == (JobState.COMPLETED, b"1")


@pytest.mark.parametrize(
    "refusal", [PoolBusy("images", 100, 20), CircuitOpen("bank", 20), RateLimited("bank", 5, 1_000, 20)]
)
async def test_what_was_refused_puts_the_job_off_and_counts_no_attempt(rig: Rig, refusal: WorkfleetError) -> None:
    ran: list[int] = []

    async def resizes(job: Any) -> int:
        ran.append(job.attempt)
        if len(ran) < 5:
            raise refusal
        return len(ran)

    rig.on(resizes, policy=RunPolicy(attempts=2, backoff=fixed("1h")))
    async with rig:
        record = await rig.finished(await rig.enqueue("resizes"))
    assert ran == [1] * 5
    assert (record.state, record.attempts_made, record.result) == (JobState.COMPLETED, 1, b"5")
    first = record.history[0]
    assert (first.outcome, first.failure and first.failure.code) == ("snoozed", refusal.code)
    assert [event.outcome for event in rig.told(JobSettled)] == ["snoozed"] * 4 + ["completed"]
    waits = [later.started_ms - earlier.ended_ms for earlier, later in itertools.pairwise(record.history)]
    assert min(waits) >= 20


async def test_a_failed_pool_puts_its_jobs_off_instead_of_failing_them(rig: Rig) -> None:
    async def resizes(job: Any) -> None:
        raise PoolFailed("images", "4 children died")

    rig.on(resizes, policy=RunPolicy(attempts=1, backoff=fixed("1ms")))
    async with rig:
        job_id = await rig.enqueue("resizes")
        async with asyncio.timeout(20):
            while not rig.told(JobSettled):
                await asyncio.sleep(0.005)
        record = await rig.record(job_id)
    assert [event.outcome for event in rig.told(JobSettled)] == ["snoozed"]
    assert (record.state, record.attempts_made) == (JobState.DELAYED, 0)
    assert record.due_ms - record.history[0].ended_ms >= 30_000


async def test_a_rule_that_names_it_makes_a_busy_pool_an_attempt(rig: Rig) -> None:
    async def resizes(job: Any) -> None:
        raise PoolBusy("images", 100, 1)

    rules: dict[str, Any] = {"workfleet.errors.PoolBusy": None}
    rig.on(resizes, policy=RunPolicy(attempts=3, backoff=fixed("1ms"), rules=rules))
    async with rig:
        record = await rig.finished(await rig.enqueue("resizes"))
    assert (record.state, record.attempts_made, record.outcome) == (JobState.FAILED, 1, "failed")
