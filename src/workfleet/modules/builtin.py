"""The built-in modules, as functions that return one. Each takes the options of its section, given or made by a
factory.

What is given here is the weakest source after the defaults: an operator overrides it without touching code. A factory's
arguments are injected, and it returns the same options as a mapping; it makes settings, never a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, Required, TypedDict, Unpack

from workfleet.model.durations import DurationLike, SizeLike
from workfleet.model.queue import Queue

from .module import Module

Factory = Callable[..., Mapping[str, Any]]


class LockOptions(TypedDict, total=False):
    """Distributed locks."""

    default_ttl: DurationLike
    key_prefix: str
    retries: int
    retry_delay: DurationLike
    client: str | None


class DefaultJobOptions(TypedDict, total=False):
    """What every schedule inherits. None switches off."""

    enabled: bool
    overlap: Literal["skip", "queue_one", "allow", "cancel_running"]
    retries: int
    retry_delay: DurationLike
    timeout: DurationLike | None
    jitter: DurationLike | None
    expires: DurationLike | None


class SchedulerOptions(TypedDict, total=False):
    """Schedules and the queues that they use."""

    enabled: bool
    timezone: str
    enable_queueing: bool
    default_queue: str
    log_registered_jobs: bool
    max_concurrent: int
    fleet_max_concurrent: int | None
    history_age: DurationLike
    history_count: int
    default_job_options: DefaultJobOptions


class PoolsOptions(TypedDict, total=False):
    """Process pools: what each `@process` inherits."""

    size: int | Literal["auto"]
    isolation: Literal["process", "thread", "inline"]
    restart_policy: Mapping[str, Any]
    memory: SizeLike | None
    soft_memory: SizeLike | None
    address_space: SizeLike | None
    cpu: float | None
    cpu_time: DurationLike | None
    call_timeout: DurationLike | None
    startup_timeout: DurationLike
    graceful_timeout: DurationLike
    stuck_after: DurationLike | None
    health_check: Mapping[str, Any]
    sweep_interval: DurationLike
    max_queue: int
    max_calls: int | None
    max_age: DurationLike | None
    strategy: Literal["least_busy", "round_robin", "power_of_two"]
    supervision: Literal["one_for_one", "one_for_all", "rest_for_one"]
    monitoring: Mapping[str, Any]


class MetricsOptions(TypedDict, total=False):
    """Metrics and where they are kept."""

    app_name: str
    collection: Mapping[str, Any]
    storage: Literal["sqlite", "postgres", "memory"]
    url: str
    batch_size: int
    flush_interval: DurationLike
    retention: DurationLike
    cleanup_interval: DurationLike
    textfile: str | PathLike[str]


class HealthOptions(TypedDict, total=False):
    """Health indicators."""

    memory: bool
    event_loop: bool
    disk: bool
    redis: bool
    redis_clients: Sequence[str]
    database: bool
    store: bool
    queues: bool
    schedules: bool
    pools: bool
    critical: Sequence[str]
    thresholds: Mapping[str, Any]
    queue_ages: Mapping[str, Mapping[str, DurationLike | None]]
    interval: DurationLike
    store_interval: DurationLike
    timeout: DurationLike
    cache_ttl: DurationLike
    version: str


class LogDestinationOptions(TypedDict, total=False):
    """Where log lines go: `to` is "stderr", "stdout" or a file."""

    to: Required[str | PathLike[str]]
    level: str
    format: Literal["auto", "console", "json"]


class JobLogOptions(TypedDict, total=False):
    """Lines that are kept with jobs."""

    level: str
    lines: int
    size: SizeLike


class LoggerOptions(TypedDict, total=False):
    """Logs."""

    level: str
    format: Literal["auto", "console", "json"]
    levels: Mapping[str, str]
    redact: bool
    redact_keys: Sequence[str]
    destinations: Mapping[str, LogDestinationOptions]
    jobs: JobLogOptions


def LockModule(*, factory: Factory | None = None, **options: Unpack[LockOptions]) -> Module:
    """Distributed locks with these defaults."""
    return _section("lock", options, factory)


def SchedulerModule(
    *, factory: Factory | None = None, queues: Sequence[str | Queue] = (), **options: Unpack[SchedulerOptions]
) -> Module:
    """Schedules with these defaults. `queues` are listened to in addition to those that handlers name.

    As in the source document, composing this module gives schedules one retry after 5 s unless it says otherwise;
    without it a scheduled run is tried once."""
    defaults: DefaultJobOptions = {"retries": 1, "retry_delay": "5s"}
    options["default_job_options"] = {**defaults, **options.get("default_job_options", {})}
    return _section("scheduler", options, factory, queues=queues)


def PoolsModule(*, factory: Factory | None = None, **options: Unpack[PoolsOptions]) -> Module:
    """Process pools with these defaults."""
    return _section("pools", options, factory)


def MetricsModule(*, factory: Factory | None = None, **options: Unpack[MetricsOptions]) -> Module:
    """Metrics with these options."""
    return _section("metrics", options, factory)


def HealthModule(*, factory: Factory | None = None, **options: Unpack[HealthOptions]) -> Module:
    """Health indicators with these options."""
    return _section("health", options, factory)


def LoggerModule(*, factory: Factory | None = None, **options: Unpack[LoggerOptions]) -> Module:
    """Logs with these options. Destinations of the application's own are `@app.log_destination`."""
    return _section("log", options, factory)


def _section(name: str, options: Any, factory: Factory | None, *, queues: Sequence[str | Queue] = ()) -> Module:
    if factory is not None and options and name != "scheduler":
        raise TypeError(f"the {name} module: give options or a factory, not both")
    return Module(
        name,
        queues=queues,
        given={name: dict(options)} if options else None,
        factories={name: factory} if factory else None,
    )
