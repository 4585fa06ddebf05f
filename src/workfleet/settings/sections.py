"""The sections of the built-in modules: the options of both source documents under our names, with their defaults.

A field's description is what `docs/settings.md` and `config show` say of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from workfleet.units import Duration, Size

from .kinds import (
    ByName,
    Count,
    CountOrZero,
    LogLevel,
    QueueName,
    Span,
    Text,
    Tick,
    TimeZone,
    Wait,
    at_least_size,
    between,
    said,
)
from .outbox import OutboxSettings

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


class RestartBackoff(BaseModel):
    """The growing wait before a child is started again."""

    model_config = _FROZEN

    initial: Wait = Field(Duration("1s"), description="First wait.")
    max: Wait = Field(Duration("30s"), description="Longest wait.")
    factor: float = Field(2.0, ge=1, le=100, description="Growth from one wait to the next.")


class RestartPolicy(BaseModel):
    """When a pool's child that died is started again."""

    model_config = _FROZEN

    enabled: bool = Field(True, description="Start children again that died.")
    max_restarts: CountOrZero = Field(3, description="Restarts within the window before the pool has failed.")
    window: Span = Field(Duration("60s"), description="The window in which restarts are counted.")
    delay: Wait = Field(Duration("1s"), description="Wait before the first restart.")
    backoff: RestartBackoff = Field(default_factory=RestartBackoff, description="Wait before the next ones.")


class HealthCheck(BaseModel):
    """How the children of a pool are asked whether they live."""

    model_config = _FROZEN

    interval: Tick = Field(Duration("5s"), description="How often a child is asked.")
    timeout: Span = Field(Duration("2s"), description="How long it may take to answer.")


Memory = Annotated[Size, at_least_size("16MB")]


class PoolOverride(BaseModel):
    """What an operator changes of one pool by its name. Only what `given()` returns was said."""

    model_config = _FROZEN

    size: Annotated[int, Field(ge=1, le=1024)] | Literal["auto"] | None = Field(
        None, description="Children of the pool; auto: one for each processor."
    )
    memory: Memory | None = Field(None, description="Memory limit of a child; none: no limit.")
    call_timeout: Span | None = Field(None, description="Longest call; none: no limit.")
    startup_timeout: Span | None = Field(None, description="Longest start of a child.")
    graceful_timeout: Wait | None = Field(None, description="Time for calls to end when the pool stops.")
    max_queue: CountOrZero | None = Field(None, description="Calls that may wait for a free child.")

    def given(self) -> dict[str, Any]:
        """The overrides by option name. None switches off a limit of memory or time; elsewhere it says nothing."""
        return said(self, {"memory", "call_timeout"})


class PoolsSettings(BaseModel):
    """Pools of child processes."""

    model_config = _FROZEN

    isolation: Literal["process"] = Field("process", description="What a child is.")
    restart_policy: RestartPolicy = Field(default_factory=RestartPolicy, description="Restarts.")
    memory: Memory | None = Field(None, description="Memory limit of a child; none: no limit.")
    call_timeout: Span | None = Field(Duration("60s"), description="Longest call; none: no limit.")
    startup_timeout: Span = Field(Duration("30s"), description="Longest start of a child.")
    graceful_timeout: Wait = Field(Duration("30s"), description="Time for calls to end when the pool stops.")
    health_check: HealthCheck = Field(default_factory=HealthCheck, description="Health checks.")
    sweep_interval: Tick = Field(Duration("5s"), description="How often dead children are looked for.")
    max_queue: CountOrZero = Field(100, description="Calls that may wait for a free child.")
    overrides: Annotated[dict[str, PoolOverride], ByName(beside=True)] = Field(
        default_factory=dict, description="Overrides of pools by name."
    )


class MetricsCollection(BaseModel):
    """What is collected by itself."""

    model_config = _FROZEN

    enabled: bool = Field(True, description="Collect figures of the process.")
    interval: Tick = Field(Duration("10s"), description="How often.")


class MetricsSettings(BaseModel):
    """Counts and durations of jobs, and figures of processes."""

    model_config = _FROZEN

    app_name: Text | None = Field(None, description="Name of the application in metrics; none: the App's.")
    collection: MetricsCollection = Field(default_factory=MetricsCollection, description="Collection.")
    storage: Literal["sqlite", "memory"] = Field("sqlite", description="Where samples are kept.")
    batch_size: Annotated[Count, Field(le=10_000)] = Field(200, description="Samples written in one step.")
    flush_interval: Tick = Field(Duration("10s"), description="Longest time before samples are written.")
    retention: Annotated[Duration, between("1m", "3650d")] = Field(
        Duration("14d"), description="How long samples are kept."
    )
    cleanup_interval: Annotated[Duration, between("1s", "7d")] = Field(
        Duration("1h"), description="How often older ones are deleted."
    )


class HealthSettings(BaseModel):
    """Health indicators."""

    model_config = _FROZEN

    memory: bool = Field(True, description="Watch the memory.")
    event_loop: bool = Field(True, description="Watch the lag of the event loop.")
    store: bool = Field(True, description="Watch the store.")
    timeout: Span = Field(Duration("2s"), description="How long one indicator may take.")
    cache_ttl: Wait = Field(Duration("1s"), description="How long an answer is used again.")
    version: Text | None = Field(None, description="Version shown in reports; none: the release.")


class LogSettings(BaseModel):
    """Logs."""

    model_config = _FROZEN

    level: LogLevel = Field("info", description="Lowest level that is written.")
    format: Literal["auto", "console", "json"] = Field(
        "auto", description="auto: console on a terminal, else one JSON document a line."
    )
    levels: dict[str, LogLevel] = Field(default_factory=dict, description="Lowest level by logger's name.")


BUILT_IN: Mapping[str, type[BaseModel]] = MappingProxyType(
    {
        "lock": LockSettings,
        "scheduler": SchedulerSettings,
        "pools": PoolsSettings,
        "metrics": MetricsSettings,
        "health": HealthSettings,
        "log": LogSettings,
        "outbox": OutboxSettings,
    }
)
