"""The built-in jobs: a process says that it has started, and every 30 s that it lives, by way of the default queue.

They are per process, carry the worker's id, keep only the last few, and never count as work.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TypedDict

from workfleet.model.jobtypes import Job, JobType
from workfleet.model.options import JobOptions
from workfleet.ports.clock import Clock
from workfleet.schedules.declare import QueueTarget, ScheduleSpec
from workfleet.settings.core import Settings

from .registry import Code, HandlerEntry, Registry, ScheduleEntry

STARTUP = "worker.startup"
HEARTBEAT = "worker.heartbeat"


class Sign(TypedDict):
    """A sign of life: when it was given, as ISO 8601."""

    timestamp: str


class WorkerLifecycle:
    """The two schedules and the two handlers."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def announce_startup(self) -> Sign:
        return self._sign()

    async def heartbeat(self) -> Sign:
        return self._sign()

    async def handle_startup(self, job: Job[Sign]) -> None:
        job.log(f"worker startup event processed at {job.data['timestamp']}")

    async def handle_heartbeat(self, job: Job[Sign]) -> None:
        job.log(f"worker heartbeat processed at {job.data['timestamp']}")

    def _sign(self) -> Sign:
        now = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=self._clock.now_ms())
        return {"timestamp": now.isoformat().replace("+00:00", "Z")}


def lifecycle_jobs(core: Settings) -> Registry:
    """What of the built-in jobs is on: all of it needs queueing, the heartbeat can be switched off by itself."""
    registry = Registry()
    if not core.queue_enabled:
        return registry
    queue = core.default_queue
    registry.classes.append(WorkerLifecycle)
    registry.queues.listen(queue)
    for name, method in ((STARTUP, "handle_startup"), (HEARTBEAT, "handle_heartbeat")):
        fn = getattr(WorkerLifecycle, method)
        registry.handlers.append(
            HandlerEntry(Code(fn, WorkerLifecycle, method), queue, name, JobType(name, Sign, queue=queue), {})
        )
    registry.schedules.append(_schedule(STARTUP, "announce_startup", None, queue))
    if core.heartbeat_enabled:
        registry.schedules.append(_schedule(HEARTBEAT, "heartbeat", core.heartbeat_every, queue))
    return registry


def _schedule(job: str, method: str, every: timedelta | None, queue: str) -> ScheduleEntry:
    options = JobOptions()
    spec = ScheduleSpec(
        name=f"{job}.scheduler",
        cron=None,
        every=every,
        at=None,
        options={"run_on_start": "process"} if every is None else {},
        target=QueueTarget(queue, job, options),
        per_process=True,
    )
    code = Code(getattr(WorkerLifecycle, method), WorkerLifecycle, method)
    return ScheduleEntry(code, f"{job}.scheduler", spec)
