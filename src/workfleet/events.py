"""The catalogue of events: what happened, as frozen values. Logs, metrics and listeners subscribe to these.

A class carries its `wire_name`, its log `level` and its `text` (filled from its fields), so that the log subscriber is
small and no other code logs. Fields hold plain values in milliseconds."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec
from msgspec import Struct

Level = Literal["debug", "info", "warning", "error"]


class Event(Struct, frozen=True, kw_only=True):
    """The root of the catalogue."""

    wire_name: ClassVar[str] = "event"
    level: ClassVar[Level] = "info"
    text: ClassVar[str] = ""

    def message(self) -> str:
        """The event as a sentence."""
        return self.text.format(**self.fields())

    def severity(self) -> Level:
        """The level of this very event; a class overrides it where its events differ."""
        return self.level

    def fields(self) -> dict[str, object]:
        """The event's facts by name."""
        return msgspec.structs.asdict(self)


# The process


class SubscriberFailed(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "subscriber.failed"
    level: ClassVar[Level] = "error"
    text: ClassVar[str] = "a subscriber failed on {event}: {subscriber}: {error}"
    subscriber: str
    event: str
    error: str


class WorkerStarting(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "worker.starting"
    text: ClassVar[str] = "{app}: {jobs} handlers, {schedules} schedules, store {store}"
    app: str
    worker: str
    store: str
    jobs: int
    schedules: int


class WorkerReady(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "worker.ready"
    text: ClassVar[str] = "ready, listening to {queues}"
    worker: str
    queues: str


class WorkerDraining(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "worker.draining"
    text: ClassVar[str] = "stopping: {active} jobs are running, at most {timeout_ms} ms"
    worker: str
    active: int
    timeout_ms: int


class WorkerStopped(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "worker.stopped"
    text: ClassVar[str] = "stopped: {completed} jobs done, {failed} failed, {given_back} given back"
    worker: str
    completed: int
    failed: int
    given_back: int
    refused: tuple[str, ...] = ()
    """Services that did not stop in time."""


class WorkerDied(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "worker.died"
    level: ClassVar[Level] = "error"
    text: ClassVar[str] = "worker process {pid} died ({how})"
    pid: int
    how: str


class WorkerStuck(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "worker.stuck"
    level: ClassVar[Level] = "error"
    text: ClassVar[str] = "worker process {pid} is stuck ({why}): dumping and killing it"
    pid: int
    why: str


class ServiceRestarted(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "service.restarted"
    level: ClassVar[Level] = "error"
    text: ClassVar[str] = "{service} failed and is restarted in {delay_ms} ms: {error}"
    service: str
    error: str
    delay_ms: int


class SettingIgnored(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "setting.ignored"
    level: ClassVar[Level] = "warning"
    text: ClassVar[str] = "{warning}"
    warning: str


class Declared(Event, frozen=True, kw_only=True):
    """One line of the start log: a handler or a schedule that this process knows."""

    wire_name: ClassVar[str] = "app.declared"
    text: ClassVar[str] = "{line}"
    line: str


# Jobs


class JobEnqueued(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "job.enqueued"
    level: ClassVar[Level] = "debug"
    text: ClassVar[str] = "{name} enqueued on {queue}"
    id: str
    name: str
    queue: str
    created: bool


class JobClaimed(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "job.claimed"
    level: ClassVar[Level] = "debug"
    text: ClassVar[str] = "{name} starts (attempt {attempt} of {max_attempts})"
    id: str
    name: str
    queue: str
    attempt: int
    max_attempts: int
    wait_ms: int
    """From ready to start."""
    schedule: str | None = None
    slot_ms: int | None = None
    housekeeping: bool = False


class JobSettled(Event, frozen=True, kw_only=True):
    """A run ended and the store has it. `state` is where the job is now, `outcome` the word for how the run ended."""

    wire_name: ClassVar[str] = "job.settled"
    text: ClassVar[str] = "{name} {outcome} after {duration_ms} ms"
    id: str
    name: str
    queue: str
    state: str
    outcome: str
    attempt: int
    duration_ms: int
    error: str | None = None
    delay_ms: int = 0
    schedule: str | None = None
    slot_ms: int | None = None
    housekeeping: bool = False

    def message(self) -> str:
        said = super().message()
        if self.error:
            said += f": {self.error}"
        if self.state == "delayed":
            said += f"; again in {self.delay_ms} ms"
        return said

    def severity(self) -> Level:
        # `Retry`, `Snooze` and a cancellation are decisions, not failures; a retry asked for in the last run is one.
        decided = self.outcome in ("cancelled", "given_back", "snoozed")
        if self.outcome == "retry" and self.state != "failed":
            decided = True
        if self.state == "completed" or decided:
            return "debug" if self.housekeeping else "info"
        return "error" if self.state == "failed" else "warning"


class JobRecovered(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "job.recovered"
    level: ClassVar[Level] = "warning"
    text: ClassVar[str] = "{name} was running when its worker ended ({how}): now {state}"
    id: str
    name: str
    queue: str
    how: str
    state: str
    worker: str


class ClaimLost(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "claim.lost"
    level: ClassVar[Level] = "warning"
    text: ClassVar[str] = "{name}: this run lost its claim, its result is discarded"
    id: str
    name: str
    queue: str


class JobLogged(Event, frozen=True, kw_only=True):
    """A line that a handler wrote with `job.log`."""

    wire_name: ClassVar[str] = "job.logged"
    text: ClassVar[str] = "{line}"
    id: str
    name: str
    queue: str
    line: str


# Schedules


class ScheduleFired(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "schedule.fired"
    level: ClassVar[Level] = "debug"
    text: ClassVar[str] = "schedule {schedule} fired"
    schedule: str
    slot_ms: int
    late_ms: int
    job_id: str | None = None


class ScheduleSkipped(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "schedule.skipped"
    level: ClassVar[Level] = "warning"
    text: ClassVar[str] = "schedule {schedule} skipped a slot: {reason}"
    schedule: str
    slot_ms: int
    reason: str


class ScheduleMissed(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "schedule.missed"
    level: ClassVar[Level] = "warning"
    text: ClassVar[str] = "schedule {schedule} missed {count} slots"
    schedule: str
    slot_ms: int
    count: int


class ScheduleUnusable(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "schedule.unusable"
    level: ClassVar[Level] = "error"
    text: ClassVar[str] = "schedule {schedule} cannot be fired by this process: {error}"
    schedule: str
    error: str


# Locks


class LockAcquired(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "lock.acquired"
    level: ClassVar[Level] = "debug"
    text: ClassVar[str] = "lock {lock} acquired"
    lock: str
    fence: int


class LockBusySkipped(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "lock.busy"
    text: ClassVar[str] = "lock {lock} is held by {holder}: {name} does not run"
    lock: str
    holder: str
    name: str


class LockLostEvent(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "lock.lost"
    level: ClassVar[Level] = "error"
    text: ClassVar[str] = "lock {lock} was lost while its body ran"
    lock: str


# Pools: the classes below belong to pools/


class ChildStarted(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "child.started"
    level: ClassVar[Level] = "debug"
    text: ClassVar[str] = "pool {pool}: child {pid} is ready after {duration_ms} ms"
    pool: str
    pid: int
    slot: int
    duration_ms: int


class ChildDied(Event, frozen=True, kw_only=True):
    """A child ended unasked, or the pool had to kill it. A child that stops as it was asked to is not told."""

    wire_name: ClassVar[str] = "child.died"
    level: ClassVar[Level] = "warning"
    text: ClassVar[str] = "pool {pool}: child {pid} died: {why}"
    pool: str
    pid: int
    how: str
    """The signal or exit code."""
    why: str
    method: str | None
    """What it was running."""
    last_words: str
    """The end of its standard error."""

    def severity(self) -> Level:
        # Ended while it still started, because nobody needs it any more: nothing that anybody has to look at.
        return (
            "debug" if self.method is None and self.why in ("the pool is stopping", "no longer wanted") else self.level
        )


class ChildReplaced(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "child.replaced"
    text: ClassVar[str] = "pool {pool}: child {pid} has replaced {old_pid}: {why}"
    pool: str
    pid: int
    old_pid: int
    why: str


class ChildPrinted(Event, frozen=True, kw_only=True):
    """A line that a child wrote to its standard output or error."""

    wire_name: ClassVar[str] = "child.printed"
    text: ClassVar[str] = "{line}"
    pool: str
    pid: int
    stream: str
    line: str


class PoolScaled(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "pool.scaled"
    text: ClassVar[str] = "pool {pool}: {new} children instead of {old}"
    pool: str
    old: int
    new: int


class PoolFailed(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "pool.failed"
    level: ClassVar[Level] = "error"
    text: ClassVar[str] = "pool {pool} has failed and takes no calls: {reason}"
    pool: str
    reason: str


# Health


class HealthChanged(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "health.changed"
    level: ClassVar[Level] = "warning"
    text: ClassVar[str] = "health is now {status}: {reason}"
    status: str
    reason: str

    def severity(self) -> Level:
        if self.status == "healthy":
            return "info"
        return "error" if self.status == "unhealthy" else "warning"


class StoreTrouble(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "store.trouble"
    level: ClassVar[Level] = "error"
    text: ClassVar[str] = "{what}: {error}; trying again"
    what: str
    error: str


class MetricsDropped(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "metrics.dropped"
    level: ClassVar[Level] = "warning"
    text: ClassVar[str] = "{count} metric rows were not written: {error}"
    count: int
    error: str


class MetricsUnavailable(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "metrics.unavailable"
    level: ClassVar[Level] = "error"
    text: ClassVar[str] = "{path} cannot be used ({reason}): metrics are kept in memory only. Move the file away"
    path: str
    reason: str
