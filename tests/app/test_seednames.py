"""The names of the source documents: each old option means what it says there, by way of the primary forms."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import workfleet
from workfleet import (
    Cron,
    CronExpression,
    IDistributedLockService,
    Interval,
    Locks,
    Pools,
    ProcessManager,
    QueueJobHandler,
    QueueWorker,
    ScheduledJob,
    Timeout,
    WithDistributedLock,
    cron,
    handler,
    interval,
    locked,
    queue,
    schedule,
    scheduled_job,
    timeout_once,
    with_distributed_lock,
)
from workfleet.model.declared import guards_of, marked
from workfleet.schedules.declare import QueueTarget, ScheduleSpec


def spec_of(decorator: Callable[[Any], Any]) -> ScheduleSpec:
    async def work() -> None: ...

    decorated = decorator(work)
    assert decorated is work  # the plain function
    spec = marked(work, ScheduleSpec)
    assert spec is not None
    return spec


HALF = timedelta(milliseconds=500)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"description": "says why"}, {"description": "says why"}),
        ({"enabled": False}, {"enabled": False}),
        ({"timezone": "Europe/Berlin"}, {"timezone": "Europe/Berlin"}),
        ({"run_on_start": True}, {"run_on_start": True}),
        ({"prevent_overlap": True}, {"overlap": "skip"}),
        ({"prevent_overlap": False}, {"overlap": "allow"}),
        ({"retries": 0}, {"attempts": 1}),
        ({"retries": 2}, {"attempts": 3}),
        ({"retry_delay": "10s"}, {"backoff": "10s"}),
        ({"retry_delay_ms": 500}, {"backoff": HALF}),
        ({"timeout": "60s"}, {"timeout": "60s"}),
        ({"timeout_ms": 500}, {"timeout": HALF}),
        ({"timeout": None}, {"timeout": None}),
        ({"timeout_ms": None}, {"timeout": None}),
        ({"max_random_delay": "5s"}, {"jitter": "5s"}),
        ({"max_random_delay_ms": 500}, {"jitter": HALF}),
        ({"jitter": "5s"}, {"jitter": "5s"}),
        ({"jitter": None}, {"jitter": None}),
        ({}, {}),
    ],
    ids=str,
)
def test_an_old_option_is_the_new_one(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert spec_of(scheduled_job(**old)) == ScheduleSpec(None, None, None, None, new)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("decorator", "when"),
    [
        (scheduled_job(cron="0 3 * * *"), {"cron": "0 3 * * *"}),
        (scheduled_job(cron=" 0 3 * * * "), {"cron": "0 3 * * *"}),
        (scheduled_job(cron="  "), {}),
        (scheduled_job(interval="15m"), {"every": "15m"}),
        (scheduled_job(interval_ms=30_000), {"every": timedelta(seconds=30)}),
        (scheduled_job(name=" nightly "), {"name": "nightly"}),
        (scheduled_job(name=" "), {}),
        (cron(CronExpression.EVERY_HOUR), {"cron": "0 * * * *"}),
        (interval("15m"), {"every": "15m"}),
        (timeout_once("5s"), {"start_delay": "5s", "options": {"run_on_start": "process"}}),
        (
            timeout_once(timedelta(seconds=5), name="once", retries=1, queue_name="emails"),
            {
                "name": "once",
                "start_delay": timedelta(seconds=5),
                "options": {"attempts": 2, "run_on_start": "process"},
                "target": QueueTarget("emails", None, {}),
            },
        ),
    ],
)
def test_when_a_job_runs(decorator: Callable[[Any], Any], when: dict[str, Any]) -> None:
    plain: dict[str, Any] = {"name": None, "cron": None, "every": None, "at": None, "options": {}}
    assert spec_of(decorator) == ScheduleSpec(**{**plain, **when})


@pytest.mark.parametrize(
    ("old", "target"),
    [
        ({"queue_name": "emails"}, QueueTarget("emails", None, {})),
        ({"queue_name": " emails ", "queue_job_name": " welcome "}, QueueTarget("emails", "welcome", {})),
        ({"queue_job_name": "welcome"}, QueueTarget(None, "welcome", {})),
        ({"queue_job_options": {"priority": 3}}, QueueTarget(None, None, {"priority": 3})),
        ({"queue_job_options": {}}, QueueTarget(None, None, {})),
        ({"queue_name": "  "}, None),
        ({}, None),
    ],
    ids=str,
)
def test_what_a_queue_target_is(old: dict[str, Any], target: QueueTarget | None) -> None:
    assert spec_of(scheduled_job(interval="1m", **old)).target == target


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: scheduled_job(retrys=1), TypeError, r"scheduled_job: unknown option 'retrys'; there are cron, desc"),  # type: ignore[call-arg]
        (lambda: timeout_once("5s", delay=1), TypeError, "timeout_once: unknown option 'delay'"),  # type: ignore[call-arg]
        (lambda: timeout_once("5s", cron="* * * * *"), TypeError, "timeout_once: cron= says again"),
        (lambda: timeout_once("5s", run_on_start=False), TypeError, "timeout_once: run_on_start= says again"),
        (lambda: timeout_once("soon"), ValueError, "'soon' is not a duration"),
        (lambda: cron("* * * * *", cron="0 * * * *"), TypeError, "cron: cron= says again"),
        (lambda: interval("1m", interval_ms=5), TypeError, "interval: interval_ms= says again"),
        (lambda: scheduled_job(cron="0 3 * * *", interval="5m"), TypeError, "give one of cron="),
        (lambda: scheduled_job(cron="0 3 * *"), ValueError, "it has 4 fields"),
        (lambda: scheduled_job(timezone="Mars/Base", cron="0 3 * * *"), ValueError, "no time zone 'Mars/Base'"),
        (lambda: scheduled_job(interval_ms=0), ValueError, "an interval is at least"),
        (lambda: scheduled_job(interval_ms=-5), ValueError, "is negative"),
        (lambda: scheduled_job(interval="5m", interval_ms=5), TypeError, "give interval or interval_ms, not both"),
        (lambda: scheduled_job(retries=-1), ValueError, "retries=-1: 0 or more"),
        (lambda: scheduled_job(retries=True), ValueError, "retries=True: 0 or more"),
        (lambda: scheduled_job(retry_delay_ms=-1), ValueError, "is negative"),
        (lambda: scheduled_job(timeout_ms=0), ValueError, "no run ends in no time"),
        (lambda: scheduled_job(timeout_ms=0.5), ValueError, "shorter than a millisecond"),  # type: ignore[arg-type]
        (lambda: scheduled_job(jitter="1s", max_random_delay_ms=5), TypeError, "two names of one option"),
        (lambda: scheduled_job(queue_job_options={"priority": -1}), ValueError, "priority=-1"),
        (lambda: scheduled_job(queue_job_options={"dealy": "1m"}), ValueError, "unknown option 'dealy'"),  # type: ignore[typeddict-unknown-key]
        (lambda: with_distributed_lock("x", "1m", ttl_ms=5), TypeError, "give ttl or ttl_ms, not both"),
        (lambda: with_distributed_lock(" "), ValueError, "a lock's key cannot be empty"),
    ],
)
def test_what_cannot_be_right_is_said_at_once(make: Callable[[], Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        make()


def test_both_spellings_are_one_object() -> None:
    assert (ScheduledJob, Cron, Interval, Timeout) == (scheduled_job, cron, interval, timeout_once)
    assert (QueueWorker, QueueJobHandler, WithDistributedLock) == (queue, handler, with_distributed_lock)
    assert (IDistributedLockService, ProcessManager) == (Locks, Pools)
    for name in ("ScheduledJob", "QueueWorker", "QueueJobHandler", "QueueWorkerHost", "SchedulerService"):
        assert getattr(workfleet, name) is getattr(workfleet.seednames, name)


@pytest.mark.parametrize("decorator", [with_distributed_lock("k", "30m"), with_distributed_lock("k", ttl_ms=1_800_000)])
def test_the_old_lock_is_locked(decorator: Callable[[Any], Any]) -> None:
    def guards(decorate: Callable[[Any], Any]) -> object:
        async def work() -> None: ...

        return guards_of(schedule(every="1m")(decorate(work)))

    assert guards(decorator) == guards(locked("k", ttl="30m"))
    assert guards(with_distributed_lock("k")) == guards(locked("k"))
