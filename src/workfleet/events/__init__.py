"""The catalogue of events: logs, metrics and listeners subscribe to these. One file a subject."""

from __future__ import annotations

from .event import Event, Level
from .health import HealthChanged, MetricsDropped, MetricsUnavailable, StoreRestored, StoreTrouble
from .jobs import BackoffFailed, ClaimLost, JobClaimed, JobEnqueued, JobLogged, JobRecovered, JobSettled
from .locks import LockAcquired, LockBusySkipped, LockLostEvent
from .outbox import OutboxMoved, OutboxRecovered, OutboxRowRefused, OutboxTrouble
from .pools import ChildDied, ChildPrinted, ChildReplaced, ChildStarted, PoolFailed, PoolScaled
from .process import (
    Declared,
    IdleWaits,
    ServiceRestarted,
    SettingIgnored,
    SubscriberFailed,
    WorkerDied,
    WorkerDraining,
    WorkerInstructed,
    WorkerReady,
    WorkerStarting,
    WorkerStopped,
    WorkerStuck,
    WorkLeft,
)
from .runs import LedgerDropped, ListenerDropped, ListenerFailed
from .schedules import (
    ScheduleCoalesced,
    ScheduleFault,
    ScheduleFired,
    ScheduleLate,
    ScheduleMissed,
    ScheduleSkipped,
    ScheduleUnusable,
)

__all__ = [
    "BackoffFailed",
    "ChildDied",
    "ChildPrinted",
    "ChildReplaced",
    "ChildStarted",
    "ClaimLost",
    "Declared",
    "Event",
    "HealthChanged",
    "IdleWaits",
    "JobClaimed",
    "JobEnqueued",
    "JobLogged",
    "JobRecovered",
    "JobSettled",
    "LedgerDropped",
    "Level",
    "ListenerDropped",
    "ListenerFailed",
    "LockAcquired",
    "LockBusySkipped",
    "LockLostEvent",
    "MetricsDropped",
    "MetricsUnavailable",
    "OutboxMoved",
    "OutboxRecovered",
    "OutboxRowRefused",
    "OutboxTrouble",
    "PoolFailed",
    "PoolScaled",
    "ScheduleCoalesced",
    "ScheduleFault",
    "ScheduleFired",
    "ScheduleLate",
    "ScheduleMissed",
    "ScheduleSkipped",
    "ScheduleUnusable",
    "ServiceRestarted",
    "SettingIgnored",
    "StoreRestored",
    "StoreTrouble",
    "SubscriberFailed",
    "WorkLeft",
    "WorkerDied",
    "WorkerDraining",
    "WorkerInstructed",
    "WorkerReady",
    "WorkerStarting",
    "WorkerStopped",
    "WorkerStuck",
]
