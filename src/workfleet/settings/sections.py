"""The sections of the built-in modules: the options of both source documents under our names, with their defaults.

A field's description is what `docs/settings.md` and `config show` say of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from workfleet.units import Duration, Size

from .health import HealthSettings
from .kinds import (
    Count,
    CountOrZero,
    FilePath,
    LogLevel,
    LogPlace,
    QueueName,
    Span,
    Text,
    Tick,
    TimeZone,
    Wait,
    between,
    size_between,
)
from .metrics import MetricsUrl
from .outbox import OutboxSettings
from .pools import PoolsSettings

_FROZEN = ConfigDict(extra="forbid", frozen=True)


class LockSettings(BaseModel):
    """Distributed locks."""

    model_config = _FROZEN

    default_ttl: Annotated[Duration, between("1s", "30d")] = Field(
        Duration("1m"), description="How long a lock is held without renewal when none is said."
    )
    key_prefix: Text = Field("lock", description="What every lock's key begins with.")
    retries: CountOrZero = Field(3, description="Further tries to take a busy lock.")
    retry_delay: Wait = Field(Duration("200ms"), description="Wait between these tries.")
    client: Text | None = Field(
        None, description="Redis client that holds the locks, by its name in `RedisModule`; none: the store does."
    )


class DefaultJobOptions(BaseModel):
    """What scheduled jobs inherit."""

    model_config = _FROZEN

    enabled: bool = Field(True, description="Whether scheduled jobs run unless they say so.")
    overlap: Literal["skip", "queue_one", "allow", "cancel_running"] = Field(
        "skip", description="What happens while the previous run goes on."
    )
    retries: CountOrZero = Field(0, description="Further attempts after a failed run; `SchedulerModule()` gives 1.")
    retry_delay: Wait = Field(Duration("5s"), description="Wait between attempts.")
    timeout: Span | None = Field(None, description="Longest run; none: no limit.")
    jitter: Wait | None = Field(None, description="Largest random delay before a run; none: no delay.")
    expires: Span | None = Field(
        None, description="A run that waits this long for its start, for a free slot say, is not run; none: it waits."
    )


class SchedulerSettings(BaseModel):
    """Schedules. Four of these are the same settings as WORKER_SCHEDULER_ENABLED and its like."""

    model_config = _FROZEN

    enabled: bool = Field(True, description="Fire schedules.")
    timezone: TimeZone = Field("UTC", description="Time zone of cron expressions that name none.")
    enable_queueing: bool = Field(True, description="Consume user queues.")
    default_queue: QueueName = Field("worker-default", description="Queue of jobs that name none.")
    log_registered_jobs: bool = Field(True, description="List every job in the start log.")
    max_concurrent: Annotated[Count, Field(le=10_000)] = Field(
        10, description="Scheduled runs at once in one worker process; others wait in the store."
    )
    fleet_max_concurrent: Count | None = Field(
        None, description="Scheduled runs at once in the whole fleet; others wait in the store; none: no limit."
    )
    history_age: Annotated[Duration, between("1m", "3650d")] = Field(
        Duration("30d"), description="How long the run ledger keeps what became of a schedule's runs."
    )
    history_count: Annotated[CountOrZero, Field(le=100_000)] = Field(
        500, description="How many of them it keeps of each schedule, the newest; 0: no ledger is written."
    )
    default_job_options: DefaultJobOptions = Field(
        default_factory=DefaultJobOptions, description="What scheduled jobs inherit."
    )


class MetricsCollection(BaseModel):
    """What is measured."""

    model_config = _FROZEN

    enabled: bool = Field(True, description="Measure at all; off: nothing is counted, read or kept.")
    interval: Tick = Field(Duration("10s"), description="How often figures of processes and the machine are read.")
    process: bool = Field(True, description="Memory, processor time, threads, files and health of each worker process.")
    system: bool = Field(True, description="Memory and processor of the container, else of the machine.")
    store_interval: Annotated[Duration, between("1s", "1d")] = Field(
        Duration("1m"), description="How often the store is asked for figures, by one worker of each machine."
    )
    queues: bool = Field(True, description="Jobs by state, the age of the oldest, pauses; and how many workers live.")
    schedules: bool = Field(True, description="How long each schedule is overdue, its last run and its next slot.")
    locks: bool = Field(True, description="How many locks are held.")
    custom: bool = Field(True, description="What the application itself measures, by `Metrics` and `@metric`.")


class MetricsSettings(BaseModel):
    """Counts and durations of jobs, and figures of processes, queues and schedules."""

    model_config = _FROZEN

    app_name: Text | None = Field(None, description="Name of the application in metrics; none: the App's.")
    collection: MetricsCollection = Field(default_factory=MetricsCollection, description="Collection.")
    storage: Literal["sqlite", "postgres", "memory"] = Field(
        "sqlite",
        description="Where samples are kept: a file on each machine, one database for all, or each process's memory.",
    )
    url: MetricsUrl | None = Field(
        None, description="The PostgreSQL database, with `storage: postgres`; none: that of DB_HOST, DB_NAME and so on."
    )
    batch_size: Annotated[Count, Field(le=10_000)] = Field(200, description="Samples written in one step.")
    flush_interval: Tick = Field(Duration("10s"), description="Longest time before samples are written.")
    retention: Annotated[Duration, between("1m", "3650d")] = Field(
        Duration("14d"), description="How long samples are kept."
    )
    cleanup_interval: Annotated[Duration, between("1s", "7d")] = Field(
        Duration("1h"), description="How often older ones are deleted."
    )
    textfile: FilePath | None = Field(
        None, description="File in Prometheus' text format that is kept up to date, say metrics.prom; none: no file."
    )


class TracingSettings(BaseModel):
    """Spans, for an OpenTelemetry SDK that the application has configured; without one nothing is done."""

    model_config = _FROZEN

    enabled: bool = Field(True, description="Spans of enqueues, runs and calls of pools; off: only those of `@trace`.")
    runs: Literal["child", "linked"] = Field(
        "child",
        description="A run's span: child is in the trace of who enqueued; linked begins a trace, and links to that.",
    )


class LogDestination(BaseModel):
    """Where log lines go."""

    model_config = _FROZEN

    to: LogPlace = Field(description="Where its lines go. A file is appended to, and opened anew when it was moved.")
    level: LogLevel | None = Field(None, description="Lowest level that it gets; none: that of `log.level`.")
    format: Literal["auto", "console", "json"] | None = Field(
        None, description="Its format; none: `log.format`, JSON for a file."
    )


class JobLogs(BaseModel):
    """Lines that are kept with the job whose code says them."""

    model_config = _FROZEN

    level: LogLevel | Literal["off"] = Field(
        "info",
        description="Lowest level of what a job's code logs that `jobs logs` shows; off: only `job.log`.",
    )
    lines: Annotated[Count, Field(le=10_000)] = Field(1_000, description="Most of these lines that a job has.")
    size: Annotated[Size, size_between("1KiB", "10MiB")] = Field(
        Size("256KiB"), description="Most that these lines of a job take."
    )


class LogSettings(BaseModel):
    """Logs."""

    model_config = _FROZEN

    level: LogLevel = Field("info", description="Lowest level that is written.")
    format: Literal["auto", "console", "json"] = Field(
        "auto", description="auto: console on a terminal, else one JSON document a line."
    )
    levels: dict[str, LogLevel] = Field(default_factory=dict, description="Lowest level by logger's name.")
    redact: bool = Field(True, description="Hide secrets: values under names of secrets, and secrets inside text.")
    redact_keys: list[Text] = Field(default_factory=list, description="Further names whose values are secrets.")
    destinations: dict[str, LogDestination] = Field(
        default_factory=dict, description="Where lines go, by name; none: standard error."
    )
    jobs: JobLogs = Field(default_factory=JobLogs, description="Lines that are kept with jobs.")


BUILT_IN: Mapping[str, type[BaseModel]] = MappingProxyType(
    {
        "lock": LockSettings,
        "scheduler": SchedulerSettings,
        "pools": PoolsSettings,
        "metrics": MetricsSettings,
        "health": HealthSettings,
        "tracing": TracingSettings,
        "log": LogSettings,
        "outbox": OutboxSettings,
    }
)
