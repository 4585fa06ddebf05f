"""The settings that belong to no module: names, defaults and ranges. How they are read is elsewhere.

A field's description is what `docs/settings.md` and `config show` say of it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from workfleet.units import Duration, Size

from .kinds import (
    ByName,
    Count,
    Day,
    FilePath,
    Instant,
    MissedText,
    Note,
    Port,
    QueueName,
    QueuePrefix,
    RateLimit,
    Span,
    Text,
    Tick,
    TimeZone,
    Wait,
    between,
    said,
    size_between,
)
from .redis import RedisSettings
from .store import StoreUrl

_CAN_BE_OFF = {"cron", "every", "at", "offset", "start", "end", "skip_on", "expires", "timeout", "jitter"}


class JobOverride(BaseModel):
    """What an operator changes of a job or schedule by its name. Only what `given()` returns was said."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(True, description="Whether it runs at all.")
    cron: Text | None = Field(None, description="Cron expression of the schedule.")
    every: Annotated[Duration, between("100ms", "365d")] | None = Field(None, description="Interval of the schedule.")
    at: Instant | None = Field(None, description="When the schedule is due, once.")
    timezone: TimeZone | None = Field(None, description="Time zone of the cron expression.")
    dst_gap: Literal["shift", "skip"] | None = Field(None, description="A fixed time that the clock passes over.")
    dst_overlap: Literal["first", "second", "both"] | None = Field(None, description="A fixed time that comes twice.")
    offset: Wait | None = Field(None, description="Moves the grid of `every`; none: no offset.")
    start: Instant | None = Field(None, description="Slots count from then on; none: from the beginning.")
    end: Instant | None = Field(None, description="Slots count before then; none: without end.")
    skip_on: list[Day] | None = Field(None, description="Local dates without slots; none: no date is left out.")
    overlap: Literal["skip", "queue_one", "allow", "cancel_running"] | None = Field(
        None, description="What a slot does while a run of the schedule is unfinished."
    )
    missed: MissedText | None = Field(None, description="What becomes of slots that passed.")
    expires: Span | None = Field(
        None, description="A scheduled run that waits this long for its start is not run; none: it waits."
    )
    attempts: Count | None = Field(None, description="How often it is tried at most, the first run included.")
    timeout: Span | None = Field(None, description="Longest run; none: no limit.")
    jitter: Wait | None = Field(None, description="Largest random delay before a scheduled run; none: no delay.")

    def given(self) -> dict[str, Any]:
        """The overrides by option name. None switches off a time, a bound, a timeout or a jitter; elsewhere it says
        nothing."""
        return said(self, _CAN_BE_OFF)


MaxPayload = Annotated[Size, size_between("1kB", "64MiB")]
_LIMITS = {"fleet_concurrency", "rate_limit", "group_concurrency", "group_rate_limit"}


class QueueOverride(BaseModel):
    """What an operator changes of a queue by its name. Only what `given()` returns was said."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    concurrency: Annotated[Count, Field(le=10_000)] | None = Field(
        None, description="Jobs of it that a worker process runs at once."
    )
    weight: Count | None = Field(None, description="Its share of `WORKER_MAX_JOBS`, relative to the other queues'.")
    fleet_concurrency: Count | None = Field(None, description="Jobs of it at once in the fleet; none: no limit.")
    rate_limit: RateLimit | None = Field(None, description="Starts in a time in the fleet; none: no limit.")
    group_concurrency: Count | None = Field(
        None, description="Jobs at once of each of its groups that has no limits of its own; none: no limit."
    )
    group_rate_limit: RateLimit | None = Field(None, description="Starts in a time of each such group; none: no limit.")
    max_payload: MaxPayload | None = Field(None, description="Largest payload, result and progress.")

    def given(self) -> dict[str, Any]:
        """The overrides by option name. None switches off a limit; elsewhere it says nothing."""
        return said(self, _LIMITS)


class DatabaseSettings(BaseModel):
    """The DB_* variables that an application's own database has beside the API's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["postgres", "postgresql", "mysql", "mariadb", "sqlite", "better-sqlite3"] | None = Field(
        None, description="Kind of database."
    )
    host: Text | None = Field(None, description="Server name or address.")
    port: Port | None = Field(None, description="Port of the server.")
    name: Text | None = Field(None, description="Name of the database.")
    user: Text | None = Field(None, description="User name.")
    password: SecretStr | None = Field(None, description="Password.")


class Settings(BaseModel):
    """Everything that the worker itself reads."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    app: Text | None = Field(None, description="The application: module:attr, or a file such as app.py.")
    app_name: Text | None = Field(
        None, description="The application's name, for a process that only enqueues; none: the App's."
    )
    config: FilePath | None = Field(None, description="The settings file, if not workfleet.yaml in the project.")
    store: StoreUrl | None = Field(
        None, repr=False, description="Where jobs are kept; none: .workfleet/<app>.db in the project."
    )
    queue_prefix: QueuePrefix | None = Field(
        None,
        description="What the keys of queues in Redis begin with; 'bull' shares them with Node; none: the app's name.",
    )
    queue_metrics: Annotated[Duration, between("1m", "366d")] | None = Field(
        None, description="Count what ends by the minute, for BullMQ's getMetrics, and keep it so long; none: do not."
    )
    release: Text | None = Field(None, description="This release; none: the App's version.")
    processes: Annotated[Count, Field(le=1024)] = Field(1, description="Worker processes of one `run`.")
    queues: list[QueueName] | None = Field(
        None, min_length=1, description="Queues that this process consumes; none: all."
    )
    packages: list[Text] = Field(default_factory=list, description="Packages that are searched for decorated methods.")
    default_queue: QueueName = Field("worker-default", description="Queue of jobs that name none.")
    queue_enabled: bool = Field(True, description="Consume user queues; off: scheduled work runs in this process.")
    scheduler_enabled: bool = Field(True, description="Fire schedules.")
    timezone: TimeZone = Field("UTC", description="Time zone of cron expressions that name none.")
    heartbeat_enabled: bool = Field(True, description="Run the built-in heartbeat job.")
    heartbeat_every: Annotated[Duration, between("1s", "1d")] = Field(
        Duration("30s"), description="Interval of the heartbeat job."
    )
    concurrency: Annotated[Count, Field(le=10_000)] = Field(
        10, description="Jobs that a worker process runs at once from one queue, unless the queue says otherwise."
    )
    max_jobs: Annotated[Count, Field(le=100_000)] | None = Field(
        None, description="Jobs that a worker process runs at once from all queues; none: the sum of the queues'."
    )
    max_payload: MaxPayload = Field(
        Size("1MiB"), description="Largest payload, result and progress, unless the queue or the job type says another."
    )
    lease: Annotated[Duration, between("1s", "1d")] = Field(
        Duration("30s"), description="How long a claim lasts without renewal."
    )
    poll: Tick = Field(Duration("10s"), description="Longest wait before an idle worker looks for work.")
    max_crashes: Annotated[Count, Field(le=1000)] = Field(
        3, description="A job whose worker died this many times has failed."
    )
    stuck_after: Annotated[Duration, between("10s", "365d")] = Field(
        Duration("10m"), description="A worker whose loop stands still this long is replaced."
    )
    shutdown_timeout: Annotated[Duration, between("0s", "1d")] = Field(
        Duration("25s"), description="Time for running jobs to end after SIGTERM."
    )
    status_file: FilePath | None = Field(None, description="File that probes read; none: a fixed place for each app.")
    http_port: Port | None = Field(
        None, description="Port of /livez, /readyz, /startupz and /metrics of `run`; none: no port is opened."
    )
    http_host: Text | None = Field(None, description="Address on which it listens; none: all of the machine's.")
    jobs: Annotated[dict[str, JobOverride], ByName()] = Field(
        default_factory=dict, description="Overrides of jobs by name."
    )
    queue_limits: Annotated[dict[str, QueueOverride], ByName()] = Field(
        default_factory=dict, description="Overrides of queues by name."
    )
    redis: Annotated[RedisSettings, Note("used by the Redis store and by RedisModule"), Field(repr=False)] = Field(
        default_factory=RedisSettings, description="The Redis connection."
    )
    db: Annotated[
        DatabaseSettings, Note("used by metrics in PostgreSQL and by the database module"), Field(repr=False)
    ] = Field(default_factory=DatabaseSettings, description="The application's database.")
