"""Turns events into metrics: one row of a table for each event class that counts. Must not know who stores them.

The product's own housekeeping jobs are left out: they are not the user's work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workfleet import events

from .registry import MetricsRegistry

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


class MetricsRecorder:
    """A subscriber of the bus."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._registry = registry
        # Looked up by class, so that an event that nobody counts costs one lookup.
        self._recorders: dict[type[events.Event], Callable[[Any], None]] = {
            events.JobEnqueued: self._enqueued,
            events.JobClaimed: self._claimed,
            events.JobSettled: self._settled,
            events.JobRecovered: self._recovered,
            events.ClaimLost: self._claim_lost,
            events.ScheduleFired: self._fired,
            events.ScheduleSkipped: self._skipped,
            events.ScheduleMissed: self._missed,
            events.LockAcquired: lambda event: self._lock("acquired"),
            events.LockBusySkipped: lambda event: self._lock("busy"),
            events.LockLostEvent: lambda event: self._lock("lost"),
            events.StoreTrouble: lambda event: registry.add(STORE_ERRORS, ()),
            events.ServiceRestarted: lambda event: registry.add(RESTARTS, (("service", event.service),)),
            events.WorkerDied: lambda event: registry.add(WORKER_DEATHS, ()),
        }

    def __call__(self, event: events.Event) -> None:
        record = self._recorders.get(type(event))
        if record is not None:
            record(event)

    def _enqueued(self, event: events.JobEnqueued) -> None:
        if event.created:
            self._registry.add(ENQUEUED, (("job", event.name), ("queue", event.queue)))

    def _claimed(self, event: events.JobClaimed) -> None:
        if not event.housekeeping:
            self._registry.observe(WAIT, (("job", event.name), ("queue", event.queue)), event.wait_ms / 1000)

    def _settled(self, event: events.JobSettled) -> None:
        if event.housekeeping:
            return
        retried = event.state not in ("completed", "failed") and event.outcome not in _NOT_A_RETRY
        outcome = "retried" if retried else event.outcome
        self._registry.add(JOBS, (("job", event.name), ("outcome", outcome), ("queue", event.queue)))
        labels = (("job", event.name), ("queue", event.queue))
        self._registry.observe(DURATION, labels, event.duration_ms / 1000)
        if retried:
            self._registry.add(RETRIES, labels)

    def _recovered(self, event: events.JobRecovered) -> None:
        self._registry.add(RECOVERED, (("job", event.name), ("queue", event.queue)))

    def _claim_lost(self, event: events.ClaimLost) -> None:
        self._registry.add(CLAIMS_LOST, (("job", event.name), ("queue", event.queue)))

    def _fired(self, event: events.ScheduleFired) -> None:
        self._fire(event.schedule, "fired")
        self._registry.observe(LATENESS, (("schedule", event.schedule),), event.late_ms / 1000)

    def _skipped(self, event: events.ScheduleSkipped) -> None:
        self._fire(event.schedule, "skipped")

    def _missed(self, event: events.ScheduleMissed) -> None:
        self._fire(event.schedule, "missed", event.count)

    def _fire(self, schedule: str, outcome: str, count: int = 1) -> None:
        self._registry.add(FIRES, (("outcome", outcome), ("schedule", schedule)), count)

    def _lock(self, outcome: str) -> None:
        self._registry.add(LOCKS, (("outcome", outcome),))
