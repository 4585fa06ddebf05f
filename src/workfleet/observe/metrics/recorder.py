"""Turns events into metrics: one row of a table for each event class that counts. Must not know who stores them.

The product's own housekeeping jobs are left out: they are not the user's work. What happens with every job is only
put down, and counted in bulk: before somebody reads the metrics, and when much has been put down.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar

from workfleet import events

from .registry import Meter, MetricsRegistry

JOBS = "workfleet_jobs_total"
ENQUEUED = "workfleet_jobs_enqueued_total"
RETRIES = "workfleet_job_retries_total"
RECOVERED = "workfleet_jobs_recovered_total"
CLAIMS_LOST = "workfleet_job_claims_lost_total"
DURATION = "workfleet_job_duration_seconds"
WAIT = "workfleet_job_wait_seconds"
FIRES = "workfleet_schedule_fires_total"
LATENESS = "workfleet_schedule_lateness_seconds"
LOCKS = "workfleet_locks_total"
STORE_ERRORS = "workfleet_store_errors_total"
RESTARTS = "workfleet_service_restarts_total"
WORKER_DEATHS = "workfleet_worker_deaths_total"

_NOT_A_RETRY = frozenset({"given_back", "snoozed", "unknown_job"})
_MOST_METERS = 1_000
_MUCH = 1_000
"""Events of a class that are kept uncounted."""
_T = TypeVar("_T")

_WAIT = attrgetter("name", "queue", "wait_ms")
_END = attrgetter("name", "queue", "state", "outcome", "duration_ms")


class _JobMeters:
    """What is counted of the jobs of one name on one queue. A series begins with the first thing that it counts."""

    __slots__ = ("_duration", "_labels", "_outcomes", "_registry", "_wait")

    def __init__(self, registry: MetricsRegistry, name: str, queue: str) -> None:
        self._registry, self._labels = registry, (("job", name), ("queue", queue))
        self._outcomes: dict[str, Meter] = {}
        self._wait: Meter | None = None
        self._duration: Meter | None = None

    def waited(self, ms: int, times: int) -> None:
        if self._wait is None:
            self._wait = self._registry.meter("histogram", WAIT, self._labels)
        self._wait.observe(ms / 1000, times)

    def ended(self, outcome: str, duration_ms: int, times: int) -> None:
        meter = self._outcomes.get(outcome)
        if meter is None or self._duration is None:
            job, queue = self._labels
            meter = self._registry.meter("counter", JOBS, (job, ("outcome", outcome), queue))
            self._outcomes[outcome] = meter
            self._duration = self._registry.meter("histogram", DURATION, self._labels)
        meter.add(times)
        self._duration.observe(duration_ms / 1000, times)

    def retried(self, times: int) -> None:
        self._registry.add(RETRIES, self._labels, times)


class MetricsRecorder:
    """A subscriber of the bus."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._registry = registry
        self._meters: dict[tuple[str, str], _JobMeters] = {}
        self._claimed: list[events.JobClaimed] = []
        self._settled: list[events.JobSettled] = []
        self._counting = threading.Lock()
        registry.before_reading(self._count)
        self._recorders: dict[type[events.Event], Callable[[Any], None]] = {
            events.JobEnqueued: self._enqueued,
            events.JobClaimed: self._put_claimed,
            events.JobSettled: self._put_settled,
            events.JobRecovered: self._recovered,
            events.ClaimLost: self._claim_lost,
            events.ScheduleFired: self._fired,
            events.ScheduleSkipped: self._skipped,
            events.ScheduleMissed: self._missed,
            events.ScheduleCoalesced: lambda event: self._fire(event.schedule, "coalesced"),
            events.LockAcquired: lambda event: self._lock("acquired"),
            events.LockBusySkipped: lambda event: self._lock("busy"),
            events.LockLostEvent: lambda event: self._lock("lost"),
            events.StoreTrouble: lambda event: registry.add(STORE_ERRORS, ()),
            events.ServiceRestarted: lambda event: registry.add(RESTARTS, (("service", event.service),)),
            events.WorkerDied: lambda event: registry.add(WORKER_DEATHS, ()),
        }

    def route(self, kind: type[events.Event]) -> Callable[[Any], None] | None:
        """What counts the events of a class; None: nobody does."""
        return self._recorders.get(kind)

    def _put_claimed(self, event: events.JobClaimed) -> None:
        if not event.housekeeping:
            self._claimed.append(event)
            if len(self._claimed) >= _MUCH:
                self._count()

    def _put_settled(self, event: events.JobSettled) -> None:
        if not event.housekeeping:
            self._settled.append(event)
            if len(self._settled) >= _MUCH:
                self._count()

    def _count(self) -> None:
        with self._counting:
            claimed, settled = _taken(self._claimed), _taken(self._settled)
        for (name, queue, wait_ms), times in Counter(map(_WAIT, claimed)).items():
            self._of(name, queue).waited(wait_ms, times)
        for (name, queue, state, outcome, duration_ms), times in Counter(map(_END, settled)).items():
            self._ended(self._of(name, queue), state, outcome, duration_ms, times)

    def _enqueued(self, event: events.JobEnqueued) -> None:
        if event.created:
            self._registry.add(ENQUEUED, (("job", event.name), ("queue", event.queue)))

    def _ended(self, meters: _JobMeters, state: str, outcome: str, duration_ms: int, times: int) -> None:
        if state in ("completed", "failed") or outcome in _NOT_A_RETRY:
            meters.ended(outcome, duration_ms, times)
        else:
            meters.ended("retried", duration_ms, times)
            meters.retried(times)

    def _of(self, name: str, queue: str) -> _JobMeters:
        meters = self._meters.get((name, queue))
        if meters is None:
            if len(self._meters) >= _MOST_METERS:
                self._meters.clear()  # names that come from outside must not take the memory
            meters = self._meters[name, queue] = _JobMeters(self._registry, name, queue)
        return meters

    def _recovered(self, event: events.JobRecovered) -> None:
        self._registry.add(RECOVERED, (("job", event.name), ("queue", event.queue)))

    def _claim_lost(self, event: events.ClaimLost) -> None:
        self._registry.add(CLAIMS_LOST, (("job", event.name), ("queue", event.queue)))

    def _fired(self, event: events.ScheduleFired) -> None:
        self._fire(event.schedule, "fired")
        self._registry.observe(LATENESS, (("schedule", event.schedule),), event.late_ms / 1000)

    def _skipped(self, event: events.ScheduleSkipped) -> None:
        self._fire(event.schedule, "skipped", event.count)

    def _missed(self, event: events.ScheduleMissed) -> None:
        self._fire(event.schedule, "missed", event.count)

    def _fire(self, schedule: str, outcome: str, count: int = 1) -> None:
        self._registry.add(FIRES, (("outcome", outcome), ("schedule", schedule)), count)

    def _lock(self, outcome: str) -> None:
        self._registry.add(LOCKS, (("outcome", outcome),))


def _taken(put_down: list[_T]) -> list[_T]:
    """What was put down until now: other threads may put down more meanwhile."""
    taken = put_down[:]
    del put_down[: len(taken)]
    return taken
