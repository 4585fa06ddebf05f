"""The names of the two source documents, as thin translators onto the primary forms. `docs/seed-map.md` lists them.

Durations may be given as text or timedelta under the bare name, or as a number with the unit in the name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, TypedDict, TypeVar, Unpack

from .app.client import Client
from .enqueueing import Enqueueing
from .errors import UsageError
from .guards.declare import circuit_breaker, idempotent, locked, metric, trace
from .jobref import JobRef
from .locks.locks import Locks
from .model.durations import DurationLike, duration_ms
from .model.jobtypes import JobType
from .model.options import JobOptions, ScheduleOptions
from .pools.registry import Pools
from .queues.declare import handler, queue
from .schedules.declare import QueueTarget, ScheduleSpec, recorder
from .schedules.info import ScheduleInfo
from .schedules.schedules import Schedules, Triggered

F = TypeVar("F", bound=Callable[..., Any])

QueueWorker = queue
QueueJobHandler = handler
IDistributedLockService = Locks
ProcessManager = Pools


class QueueWorkerHost:
    """For those who want a base class: a class that derives from it dispatches exactly as one that does not."""


class ScheduledJobOptions(TypedDict, total=False):
    """The source document's options for a scheduled job."""

    name: str
    description: str
    enabled: bool
    cron: str
    interval: DurationLike
    interval_ms: int
    run_on_start: bool
    prevent_overlap: bool
    retries: int
    retry_delay: DurationLike
    retry_delay_ms: int
    timeout: DurationLike | None
    timeout_ms: int | None
    jitter: DurationLike | None
    max_random_delay: DurationLike
    max_random_delay_ms: int
    timezone: str
    queue_name: str
    queue_job_name: str
    queue_job_options: JobOptions


def scheduled_job(**options: Unpack[ScheduledJobOptions]) -> Callable[[F], F]:
    """`@scheduled_job(cron=…, retries=2, queue_name="emails")`: with a queue target, the return value is the payload of
    a job there. Job name or options without a queue mean the default queue; the job's default name is the schedule's.

    Raises TypeError and ValueError as `schedule`."""
    given = _known("scheduled_job", options)
    return recorder(
        ScheduleSpec(
            name=_stripped(given.get("name")),
            cron=_stripped(given.get("cron")),
            every=_duration(given, "interval"),
            at=None,
            options=_schedule_options(given),
            target=_target(given),
        )
    )


def cron(expression: str, /, **options: Unpack[ScheduledJobOptions]) -> Callable[[F], F]:
    """`@cron(CronExpression.EVERY_HOUR, timezone="UTC")`."""
    _refuse("cron", options, "cron")
    options["cron"] = expression
    return scheduled_job(**options)


def interval(every: DurationLike, /, **options: Unpack[ScheduledJobOptions]) -> Callable[[F], F]:
    """`@interval("15m")`."""
    _refuse("interval", options, "interval", "interval_ms")
    options["interval"] = every
    return scheduled_job(**options)


def timeout_once(after: DurationLike, /, **options: Unpack[ScheduledJobOptions]) -> Callable[[F], F]:
    """`@timeout_once("5s")`: once in each process, this long after its start."""
    given = _known("timeout_once", options)
    _refuse("timeout_once", given, "cron", "interval", "interval_ms", "run_on_start")
    duration_ms(after)
    return recorder(
        ScheduleSpec(
            name=_stripped(given.get("name")),
            cron=None,
            every=None,
            at=None,
            options={**_schedule_options(given), "run_on_start": "process"},
            target=_target(given),
            start_delay=after,
        )
    )


def with_distributed_lock(
    key: str, ttl: DurationLike | None = None, /, *, ttl_ms: int | None = None
) -> Callable[[F], F]:
    """`@with_distributed_lock("cleanup:hourly", "30m")`: `locked`, which skips a run while somebody else has the lock.

    Other than in the source document it is renewed while the function runs."""
    if ttl is not None and ttl_ms is not None:
        raise TypeError("give ttl or ttl_ms, not both")
    return locked(key, ttl=ttl if ttl_ms is None else timedelta(milliseconds=ttl_ms))


def CircuitBreaker(  # noqa: N802 - the source document's name; in snake case it is ours
    *,
    threshold: int = 5,
    timeout: DurationLike | None = None,
    timeout_ms: int | None = None,
    fallback: Callable[..., Any] | None = None,
) -> Callable[[F], F]:
    """`@CircuitBreaker(threshold=5, timeout="30s")`: `circuit_breaker`, whose `reset_after` is their `timeout` (1 min).

    Other than in the source system the fallback answers only while the circuit is open, not for calls that fail."""
    if timeout is not None and timeout_ms is not None:
        raise TypeError("give timeout or timeout_ms, not both")
    given = timedelta(milliseconds=timeout_ms) if timeout_ms is not None else timeout
    return circuit_breaker(threshold=threshold, reset_after="1m" if given is None else given, fallback=fallback)


WithDistributedLock = with_distributed_lock
Idempotent, Metric, Trace = idempotent, metric, trace
ScheduledJob, Cron, Interval, Timeout = scheduled_job, cron, interval, timeout_once


def _known(where: str, options: Mapping[str, Any]) -> dict[str, Any]:
    for option in options:
        if option not in ScheduledJobOptions.__optional_keys__:
            known = ", ".join(sorted(ScheduledJobOptions.__optional_keys__))
            raise TypeError(f"{where}: unknown option {option!r}; there are {known}")
    return dict(options)


def _refuse(where: str, options: Mapping[str, Any], *names: str) -> None:
    for name in names:
        if name in options:
            raise TypeError(f"{where}: {name}= says again, or otherwise, when it runs")


def _target(given: Mapping[str, Any]) -> QueueTarget | None:
    queue, job = _stripped(given.get("queue_name")), _stripped(given.get("queue_job_name"))
    options = given.get("queue_job_options")
    if queue is None and job is None and options is None:
        return None
    target = QueueTarget(queue, job, JobOptions() if options is None else options)
    Enqueueing("", lambda: 0).bare("queue", "job", b"null", target.options)  # what is wrong is told here, not at a run
    return target


def _schedule_options(given: Mapping[str, Any]) -> ScheduleOptions:
    options = ScheduleOptions()
    for name in ("description", "enabled", "timezone", "run_on_start"):
        if name in given:
            options[name] = given[name]
    if "prevent_overlap" in given:
        options["overlap"] = "skip" if given["prevent_overlap"] else "allow"
    if "retries" in given:
        if type(given["retries"]) is not int or given["retries"] < 0:
            raise ValueError(f"retries={given['retries']!r}: 0 or more")
        options["attempts"] = given["retries"] + 1
    for theirs, ours in _RENAMED:
        if theirs in given or f"{theirs}_ms" in given:
            if ours in options:
                raise TypeError(f"{theirs} and {ours} are two names of one option: give one of them")
            options[ours] = _duration(given, theirs)  # type: ignore[literal-required]
    return options


_RENAMED = (("jitter", "jitter"), ("max_random_delay", "jitter"), ("retry_delay", "backoff"), ("timeout", "timeout"))


def _duration(given: Mapping[str, Any], name: str) -> DurationLike | None:
    if f"{name}_ms" not in given:
        return given.get(name)
    if name in given:
        raise TypeError(f"give {name} or {name}_ms, not both")
    value = given[f"{name}_ms"]
    return None if value is None else timedelta(milliseconds=value)


def _stripped(text: str | None) -> str | None:
    return (text.strip() or None) if text is not None else None


class SchedulerService:
    """The source document's public service: list, trigger, enqueue."""

    def __init__(self, schedules: Schedules, client: Client) -> None:
        self._schedules, self._client = schedules, client

    async def list_jobs(self) -> list[ScheduleInfo]:
        """As `Schedules.list`."""
        return await self._schedules.list()

    async def trigger_now(self, id: str) -> Triggered:
        """As `Schedules.trigger`."""
        return await self._schedules.trigger(id)

    async def enqueue(
        self, queue: str, name: str, data: object = None, options: JobOptions | None = None
    ) -> JobRef[Any]:
        """Put a job on a queue by names. Errors as `Client.enqueue`."""
        return await _enqueue(self._client, queue, name, data, options)


class SchedulerQueueService:
    """The source document's queue service."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def enqueue(
        self, queue: str, name: str, data: object = None, options: JobOptions | None = None
    ) -> JobRef[Any]:
        """Put a job on a queue by names. Errors as `Client.enqueue`."""
        return await _enqueue(self._client, queue, name, data, options)


async def _enqueue(client: Client, queue: str, name: str, data: object, options: JobOptions | None) -> JobRef[Any]:
    if not queue.strip() or not name.strip():
        raise UsageError("enqueue needs the names of a queue and of a job")
    kind: JobType[Any, Any] = JobType(name.strip(), object, object, queue=queue.strip())
    return await client.enqueue(kind(data, **(options or {})))
