"""workfleet: background work for a fleet of machines. Scheduled jobs, durable queues, process pools, locks.

The names below are the public API. They are imported when they are first used, so that `workfleet probe` and a client
load no more than they need."""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers take it for true; importing `typing` would be most of what `probe` costs
if TYPE_CHECKING:
    from typing import Annotated, Any, TypeAlias, TypeVar

    from .app.app import App as App
    from .app.client import Client as Client
    from .app.outbox import Outbox as Outbox
    from .app.outbox import SyncOutbox as SyncOutbox
    from .app.sync import SyncClient as SyncClient
    from .errors import CallStuck as CallStuck
    from .errors import CallTimeout as CallTimeout
    from .errors import Cancel as Cancel
    from .errors import ChildDied as ChildDied
    from .errors import CircuitOpen as CircuitOpen
    from .errors import ConfigError as ConfigError
    from .errors import CpuTimeExceeded as CpuTimeExceeded
    from .errors import Fail as Fail
    from .errors import JobFailed as JobFailed
    from .errors import LockBusy as LockBusy
    from .errors import LockLost as LockLost
    from .errors import LockUnavailable as LockUnavailable
    from .errors import MemoryLimitExceeded as MemoryLimitExceeded
    from .errors import MisplacedGuard as MisplacedGuard
    from .errors import NotFound as NotFound
    from .errors import PayloadRejected as PayloadRejected
    from .errors import PoolBusy as PoolBusy
    from .errors import PoolError as PoolError
    from .errors import PoolFailed as PoolFailed
    from .errors import QueueingDisabled as QueueingDisabled
    from .errors import RateLimited as RateLimited
    from .errors import ResultTimeout as ResultTimeout
    from .errors import Retry as Retry
    from .errors import Snooze as Snooze
    from .errors import StaleClaim as StaleClaim
    from .errors import StoreUnavailable as StoreUnavailable
    from .errors import UsageError as UsageError
    from .errors import WorkfleetError as WorkfleetError
    from .guards.declare import circuit_breaker as circuit_breaker
    from .guards.declare import idempotent as idempotent
    from .guards.declare import locked as locked
    from .guards.declare import metric as metric
    from .guards.declare import rate_limit as rate_limit
    from .guards.declare import retry as retry
    from .guards.declare import timeout as timeout
    from .guards.declare import trace as trace
    from .health.indication import Indication as Indication
    from .health.indication import Indicator as Indicator
    from .health.service import Health as Health
    from .jobref import JobRef as JobRef
    from .locks.locks import Locks as Locks
    from .model.durations import DurationLike as DurationLike
    from .model.expressions import CronExpression as CronExpression
    from .model.jobs import JobRecord as JobRecord
    from .model.jobs import JobState as JobState
    from .model.jobtypes import Job as Job
    from .model.jobtypes import JobContext as JobContext
    from .model.jobtypes import JobType as JobType
    from .model.jobtypes import NewJob as NewJob
    from .model.limits import Rate as Rate
    from .model.missed import catch_up as catch_up
    from .model.policy import Backoff as Backoff
    from .model.policy import exponential as exponential
    from .model.policy import fixed as fixed
    from .model.policy import linear as linear
    from .model.policy import own_backoff as own_backoff
    from .model.queue import Group as Group
    from .model.queue import Queue as Queue
    from .model.retention import Retention as Retention
    from .model.runs import RunEvent as RunEvent
    from .model.setting import setting as setting
    from .model.unique import Unique as Unique
    from .modules.builtin import HealthModule as HealthModule
    from .modules.builtin import LockModule as LockModule
    from .modules.builtin import LoggerModule as LoggerModule
    from .modules.builtin import MetricsModule as MetricsModule
    from .modules.builtin import PoolsModule as PoolsModule
    from .modules.builtin import SchedulerModule as SchedulerModule
    from .modules.module import Module as Module
    from .modules.outbox import OutboxModule as OutboxModule
    from .modules.redis import RedisClient as RedisClient
    from .modules.redis import RedisClients as RedisClients
    from .modules.redis import RedisModule as RedisModule
    from .observe.logs.rendering import LogLine as LogLine
    from .observe.metrics.service import Metrics as Metrics
    from .pools.declare import health_check as health_check
    from .pools.declare import on_shutdown as on_shutdown
    from .pools.declare import on_start as on_start
    from .pools.declare import process as process
    from .pools.declare import public as public
    from .pools.registry import Pools as Pools
    from .queues.declare import handler as handler
    from .queues.declare import queue as queue
    from .queues.filters import JobFilter as JobFilter
    from .queues.jobs import Jobs as Jobs
    from .queues.queues import QueueInfo as QueueInfo
    from .queues.queues import Queues as Queues
    from .schedules.declare import schedule as schedule
    from .schedules.history import PastRun as PastRun
    from .schedules.info import ScheduleInfo as ScheduleInfo
    from .schedules.schedules import Schedules as Schedules
    from .schedules.schedules import Triggered as Triggered
    from .seednames import CircuitBreaker as CircuitBreaker
    from .seednames import Cron as Cron
    from .seednames import Idempotent as Idempotent
    from .seednames import IDistributedLockService as IDistributedLockService
    from .seednames import Interval as Interval
    from .seednames import Metric as Metric
    from .seednames import ProcessManager as ProcessManager
    from .seednames import QueueJobHandler as QueueJobHandler
    from .seednames import QueueWorker as QueueWorker
    from .seednames import QueueWorkerHost as QueueWorkerHost
    from .seednames import ScheduledJob as ScheduledJob
    from .seednames import SchedulerQueueService as SchedulerQueueService
    from .seednames import SchedulerService as SchedulerService
    from .seednames import Timeout as Timeout
    from .seednames import Trace as Trace
    from .seednames import WithDistributedLock as WithDistributedLock
    from .seednames import cron as cron
    from .seednames import interval as interval
    from .seednames import scheduled_job as scheduled_job
    from .seednames import timeout_once as timeout_once
    from .seednames import with_distributed_lock as with_distributed_lock
    from .units import Duration as Duration
    from .units import Size as Size

    W = TypeVar("W")
    Pool: TypeAlias = Annotated[W, "a pool's proxy, which stands for the class"]

__version__ = "0.1.0"

_HOMES = {
    "app.app": "App",
    "app.client": "Client",
    "app.graph": "Pool",
    "app.outbox": "Outbox SyncOutbox",
    "app.sync": "SyncClient",
    "errors": (
        "CallStuck CallTimeout Cancel ChildDied CircuitOpen ConfigError CpuTimeExceeded Fail JobFailed LockBusy "
        "LockLost LockUnavailable MemoryLimitExceeded MisplacedGuard NotFound PayloadRejected PoolBusy PoolError "
        "PoolFailed QueueingDisabled RateLimited ResultTimeout Retry Snooze StaleClaim StoreUnavailable UsageError "
        "WorkfleetError"
    ),
    "guards.declare": "circuit_breaker idempotent locked metric rate_limit retry timeout trace",
    "health.indication": "Indication Indicator",
    "health.service": "Health",
    "jobref": "JobRef",
    "locks.locks": "Locks",
    "model.durations": "DurationLike",
    "model.expressions": "CronExpression",
    "model.jobs": "JobRecord JobState",
    "model.jobtypes": "Job JobContext JobType NewJob",
    "model.limits": "Rate",
    "model.missed": "catch_up",
    "model.policy": "Backoff exponential fixed linear own_backoff",
    "model.queue": "Group Queue",
    "model.retention": "Retention",
    "model.runs": "RunEvent",
    "model.setting": "setting",
    "model.unique": "Unique",
    "modules.builtin": "HealthModule LockModule LoggerModule MetricsModule PoolsModule SchedulerModule",
    "modules.module": "Module",
    "modules.outbox": "OutboxModule",
    "modules.redis": "RedisClient RedisClients RedisModule",
    "observe.logs.rendering": "LogLine",
    "observe.metrics.service": "Metrics",
    "pools.declare": "health_check on_shutdown on_start process public",
    "pools.registry": "Pools",
    "queues.declare": "handler queue",
    "queues.filters": "JobFilter",
    "queues.jobs": "Jobs",
    "queues.queues": "QueueInfo Queues",
    "schedules.declare": "schedule",
    "schedules.history": "PastRun",
    "schedules.info": "ScheduleInfo",
    "schedules.schedules": "Schedules Triggered",
    "seednames": (
        "CircuitBreaker Cron IDistributedLockService Idempotent Interval Metric ProcessManager QueueJobHandler "
        "QueueWorker QueueWorkerHost ScheduledJob SchedulerQueueService SchedulerService Timeout Trace "
        "WithDistributedLock cron interval scheduled_job timeout_once with_distributed_lock"
    ),
    "units": "Duration Size",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}
__all__ = sorted(_HOME)  # noqa: PLE0605 - computed from the table above


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
