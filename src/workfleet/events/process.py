"""What happens to the process: start, stop, services, settings."""

from __future__ import annotations

from typing import ClassVar

from .event import Event, Level


class SubscriberFailed(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "subscriber.failed"
    level: ClassVar[Level] = "error"
    text: ClassVar[str] = "a subscriber failed on {event}: {subscriber}: {error}"
    subscriber: str
    event: str
    error: str


class WorkerStarting(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "worker.starting"
    text: ClassVar[str] = "{app}: handlers {jobs}, schedules {schedules}, store {store}"
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


class WorkerInstructed(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "worker.instructed"
    text: ClassVar[str] = "an operator told this worker: {instruction}"
    worker: str
    instruction: str
    """"quiet", "stop", "recycle", or "work" where "quiet" was taken back."""


class WorkerDraining(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "worker.draining"
    text: ClassVar[str] = "stopping: running jobs: {active}, at most {timeout_ms} ms"
    worker: str
    active: int
    timeout_ms: int


class WorkerStopped(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "worker.stopped"
    text: ClassVar[str] = "stopped: {completed} done, {failed} failed, {given_back} given back"
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


class WorkerBlocked(Event, frozen=True, kw_only=True):
    """Told once for each time that its loop stands still. `jobs` are those that it runs, the newest first: one of them,
    a schedule or a hook holds it. `stack` is where its main thread stands, in the log as `exception`."""

    wire_name: ClassVar[str] = "worker.blocked"
    level: ClassVar[Level] = "warning"
    text: ClassVar[str] = (
        "the event loop of worker {index} (process {pid}) is blocked for {blocked_ms} ms; it runs {jobs}"
    )
    worker: str
    index: int
    pid: int
    blocked_ms: int
    active: int = 0
    """How many jobs there are; `jobs` names twenty of them."""
    jobs: tuple[str, ...] = ()
    """Their names and ids, as `name (id)`."""
    stack: str = ""

    def message(self) -> str:
        """The jobs in words."""
        return _with_jobs(self, self.jobs, self.active)


class WorkerWentOn(Event, frozen=True, kw_only=True):
    """The end of `worker.blocked`. `jobs` are those that it ran while it was blocked."""

    wire_name: ClassVar[str] = "worker.went_on"
    level: ClassVar[Level] = "warning"
    text: ClassVar[str] = (
        "the event loop of worker {index} (process {pid}) went on after {blocked_ms} ms; it ran {jobs}"
    )
    worker: str
    index: int
    pid: int
    blocked_ms: int
    active: int = 0
    """How many jobs there are; `jobs` names twenty of them."""
    jobs: tuple[str, ...] = ()

    def message(self) -> str:
        """The jobs in words."""
        return _with_jobs(self, self.jobs, self.active)


class WorkerDumped(Event, frozen=True, kw_only=True):
    """Somebody sent a worker SIGUSR2: `stack` has the stacks of its threads, in the log as `exception`."""

    wire_name: ClassVar[str] = "worker.dumped"
    text: ClassVar[str] = "worker process {pid} was asked for its stacks"
    worker: str
    pid: int
    stack: str


class WorkerStuck(Event, frozen=True, kw_only=True):
    """`stack` has the stacks of all its threads, in the log as `exception`."""

    wire_name: ClassVar[str] = "worker.stuck"
    level: ClassVar[Level] = "error"
    text: ClassVar[str] = "worker process {pid} is stuck ({why}) and is killed; it runs {jobs}"
    worker: str
    pid: int
    why: str
    active: int = 0
    """How many jobs there are; `jobs` names twenty of them."""
    jobs: tuple[str, ...] = ()
    stack: str = ""

    def message(self) -> str:
        """The jobs in words."""
        return _with_jobs(self, self.jobs, self.active)


class ServiceRestarted(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "service.restarted"
    level: ClassVar[Level] = "error"
    text: ClassVar[str] = "{service} failed and is restarted in {delay_ms} ms: {error}"
    service: str
    error: str
    delay_ms: int


class IdleWaits(Event, frozen=True, kw_only=True):
    """`--until-idle` has nothing to run, and something is not done yet."""

    wire_name: ClassVar[str] = "worker.waits"
    text: ClassVar[str] = "not idle yet: {what}"
    what: str


class WorkLeft(Event, frozen=True, kw_only=True):
    """`--until-idle` ends, and a paused queue has jobs."""

    wire_name: ClassVar[str] = "worker.work_left"
    level: ClassVar[Level] = "warning"
    text: ClassVar[str] = "queue {queue} is paused: {count} of its jobs stay behind"
    queue: str
    count: int


class HttpListening(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "http.listening"
    text: ClassVar[str] = "/livez, /readyz, /startupz and /metrics answer on {address}"
    address: str


class HttpUnavailable(Event, frozen=True, kw_only=True):
    """Told once, until it could be opened."""

    wire_name: ClassVar[str] = "http.unavailable"
    level: ClassVar[Level] = "error"
    text: ClassVar[str] = "port {port} cannot be opened ({reason}); trying again. WORKER_HTTP_PORT names another"
    port: int
    reason: str


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


_SHOWN = 5


def _with_jobs(event: Event, jobs: tuple[str, ...], active: int) -> str:
    more = f" and {active - _SHOWN} more" if active > _SHOWN else ""
    shown = ", ".join(jobs[:_SHOWN]) + more if jobs else "no job"
    return event.text.format(**{**event.fields(), "jobs": shown})
