"""Whatever user code does, its run ends as one recorded outcome, and the worker goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import Struct
from pydantic import BaseModel, field_validator

from tests.queues.rig import Rig, until
from workfleet.errors import Cancel, Fail, Retry, Skipped, Snooze
from workfleet.events import ClaimLost, JobSettled
from workfleet.model.jobs import JobState


class Unsayable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


class ExitsWhenShown(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)

    __repr__ = __str__


class Odd(BaseException):
    pass


class ForgetfulFail(Fail):
    def __init__(self) -> None:  # does not call ours
        pass


class ForgetfulRetry(Retry):
    def __init__(self) -> None:
        pass


RAISED = [
    (ValueError("boom"), "ValueError", "boom"),
    (ValueError(), "ValueError", "ValueError()"),
    (SystemExit(3), "SystemExit", "3"),
    (KeyboardInterrupt(), "KeyboardInterrupt", "KeyboardInterrupt()"),
    (GeneratorExit(), "GeneratorExit", "GeneratorExit()"),
    (asyncio.CancelledError("mine"), "asyncio.exceptions.CancelledError", "mine"),
    (TimeoutError("mine"), "TimeoutError", "mine"),
    (Odd("odd"), f"{__name__}.Odd", "odd"),
    (Unsayable(), f"{__name__}.Unsayable", "(its text cannot be read: RuntimeError)"),
    (ExitsWhenShown(), f"{__name__}.ExitsWhenShown", "(its text cannot be read: SystemExit)"),
    (ExceptionGroup("two", [ValueError("a"), KeyError("b")]), "ExceptionGroup", "two (2 sub-exceptions)"),
    (ValueError("a\ud800b"), "ValueError", "a?b"),
    (ValueError("a\0b"), "ValueError", "a\0b"),
    (ValueError("x" * 100_000), "ValueError", "x" * 5_000),
]


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_anything_raised_is_a_failed_attempt(rig: Rig, kind: str) -> None:
    def raiser(error: BaseException) -> Any:
        async def coroutine(_job: Any) -> None:
            raise error

        def function(_job: Any) -> None:
            raise error

        return coroutine if kind == "async" else function

    for number, (error, _, _) in enumerate(RAISED):
        rig.on(raiser(error), name=f"bad{number}")
    rig.on(_fine, name="fine")
    async with rig:
        *bad, fine = await rig.enqueue_many([f"bad{number}" for number in range(len(RAISED))] + ["fine"])
        records = [await rig.finished(job_id) for job_id in bad]
        assert (await rig.finished(fine)).state is JobState.COMPLETED
    assert {(record.state, record.outcome, record.attempts_made) for record in records} == {
        (JobState.FAILED, "failed", 2)
    }
    failures = [record.failure for record in records if record.failure is not None]
    assert [(f.type, f.message) for f in failures] == [(type_name, message) for _, type_name, message in RAISED]
    assert {failure.code for failure in failures} == {"raised"}
    assert all(0 < len(failure.traceback) <= 20_000 for failure in failures)
    assert {tuple(attempt.number for attempt in record.history) for record in records} == {(1, 2)}


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_stop_iteration_fails_like_any_other(rig: Rig, kind: str) -> None:
    async def coroutine(_job: Any) -> None:
        next(iter([]))

    def function(_job: Any) -> None:
        next(iter([]))

    rig.on(coroutine if kind == "async" else function, name="bad")
    async with rig:
        record = await rig.finished(await rig.enqueue("bad"))
    assert record.failure is not None
    assert record.state is JobState.FAILED
    assert "StopIteration" in record.failure.type + record.failure.message


SAID = [
    (Fail("no use"), "failed", "failed", "no use", 1),
    (Fail(ValueError("no\ud800use")), "failed", "failed", "no?use", 1),  # type: ignore[arg-type]
    (ForgetfulFail(), "failed", "failed", "ForgetfulFail()", 1),
    (Cancel(), "failed", "cancelled", "cancelled by its handler", 1),
    (Cancel("not needed"), "failed", "cancelled", "not needed", 1),
    (Skipped("nothing to do"), "completed", "skipped", "nothing to do", 1),
    (Retry("once more", after="1ms"), "failed", "retry", "once more", 2),
    (Retry(), "failed", "retry", "the handler asked for a retry", 2),
    (ForgetfulRetry(), "failed", "retry", "ForgetfulRetry()", 2),
    (Retry(after="soon"), "failed", "failed", "'soon' is not a duration such as '90s', '1h30m', '250ms' or '14d'", 1),
    (Snooze(after="-1s"), "failed", "failed", "'-1s' is negative: a duration is zero or more", 1),
]


async def test_what_a_handler_says_on_purpose(rig: Rig) -> None:
    def sayer(error: Exception) -> Any:
        async def decided(_job: Any) -> None:
            raise error

        return decided

    for number, (error, *_) in enumerate(SAID):
        rig.on(sayer(error), name=f"said{number}")
    async with rig:
        ids = await rig.enqueue_many([f"said{number}" for number in range(len(SAID))])
        records = [await rig.finished(job_id) for job_id in ids]
    assert [
        (record.state.value, record.outcome, record.failure and record.failure.message, record.attempts_made)
        for record in records
    ] == [tuple(rest) for _, *rest in SAID]


async def test_a_snoozed_job_comes_back_without_counting_an_attempt(rig: Rig) -> None:
    runs = []

    async def sleepy(job: Any) -> int:
        runs.append(job.attempt)
        if len(runs) < 4:
            raise Snooze(after="1ms", reason="not yet")
        return len(runs)

    rig.on(sleepy)
    async with rig:
        record = await rig.finished(await rig.enqueue("sleepy"))
        await until(lambda: len(rig.told(JobSettled)) == 4)
    assert runs == [1, 1, 1, 1]
    assert (record.result, record.attempts_made) == (b"4", 1)
    assert [(e.outcome, e.severity()) for e in rig.told(JobSettled)] == [
        ("snoozed", "info"), ("snoozed", "info"), ("snoozed", "info"), ("completed", "info")
    ]  # fmt: skip


class Loud(BaseModel):
    x: int = 1

    def model_dump_json(self, **_kwargs: Any) -> str:
        raise RuntimeError("the serializer is broken")


UNSTORABLE = [
    (object(), "type object"),
    (iter({1, 2}), "set_iterator"),
    (float("nan"), "nan is no JSON number"),
    (2**70, "beyond ±(2^53-1)"),
    ("\ud800", "not valid Unicode"),
    ("x" * (1024 * 1024), "the limit is 1,048,576"),
    (Loud(), "the serializer is broken"),
]


async def test_a_result_that_cannot_be_stored_fails_for_good(rig: Rig) -> None:
    runs = []

    def returner(value: object) -> Any:
        async def effect(job: Any) -> object:
            runs.append(job.name)
            return value

        return effect

    names = [f"effect{number}" for number in range(len(UNSTORABLE))]
    for name, (value, _) in zip(names, UNSTORABLE, strict=True):
        rig.on(returner(value), name=name)
    async with rig:
        records = [await rig.finished(job_id) for job_id in await rig.enqueue_many(names)]
    assert sorted(runs) == names  # once each: a side effect that is done must not be done again
    assert {(record.state, record.attempts_made) for record in records} == {(JobState.FAILED, 1)}
    for record, (_, said) in zip(records, UNSTORABLE, strict=True):
        assert record.failure is not None
        assert said in record.failure.message


class Point(Struct):
    x: int


class Grumpy(BaseModel):
    x: int

    @field_validator("x")
    @classmethod
    def grumble(cls, x: int) -> int:
        raise KeyError("a validator that is broken")


@pytest.mark.parametrize(
    ("hint", "payload", "said"),
    [
        (Point, b'{"x": "no"}', "payload of typed: $.x"),
        (Point, b"{garbage", "payload of typed: $"),
        (Point, b"\xff\xfe", "payload of typed: $"),
        (Grumpy, b'{"x": 1}', "a validator that is broken"),
    ],
)
async def test_a_payload_that_cannot_be_decoded_fails_with_the_reason(
    rig: Rig, hint: Any, payload: bytes, said: str
) -> None:
    async def typed(_job: Any) -> None:
        raise AssertionError("never called")

    rig.on(typed, payload=hint)
    async with rig:
        record = await rig.finished(await rig.enqueue("typed", payload))
    assert record.failure is not None
    assert (record.state, record.attempts_made) == (JobState.FAILED, 1)
    assert said in record.failure.message


async def test_retries_wait_by_the_backoff_and_count(rig: Rig) -> None:
    seen = []

    async def flaky(job: Any) -> str:
        seen.append((job.attempt, job.max_attempts))
        if job.attempt < 3:
            raise OSError("again")
        return "done"

    rig.on(flaky, policy=_policy(attempts=3))
    async with rig:
        record = await rig.finished(await rig.enqueue("flaky"))
        await until(lambda: len(rig.told(JobSettled)) == 3)
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert (record.result, record.attempts_made) == (b'"done"', 3)
    assert record.failure is None  # a job that came through has no failure any more; its history keeps them
    assert [a.failure and a.failure.message for a in record.history] == ["again", "again", None]
    assert [(e.outcome, e.state, e.severity()) for e in rig.told(JobSettled)] == [
        ("failed", "delayed", "warning"),
        ("failed", "delayed", "warning"),
        ("completed", "completed", "info"),
    ]
    assert rig.told(ClaimLost) == []


def _policy(**facts: Any) -> Any:
    from workfleet.model.outcome import RunPolicy
    from workfleet.model.policy import fixed

    return RunPolicy(backoff=fixed("1ms"), **facts)


async def _fine(_job: Any) -> None:
    return None


async def test_a_run_that_cancels_itself_has_failed_an_attempt(rig: Rig) -> None:
    async def cancels_itself(_job: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(5)

    rig.on(cancels_itself)
    async with rig:
        record = await rig.finished(await rig.enqueue("cancels_itself"))
    assert (record.state, record.attempts_made) == (JobState.FAILED, 2)
    assert [attempt.outcome for attempt in record.history] == ["failed", "failed"]
