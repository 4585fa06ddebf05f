"""Turns events into metrics: one row of a table for each event class that counts. Must not know who stores them.

The product's own housekeeping jobs are left out: they are not the user's work. What happens with every job is only
put down, and counted in bulk: before somebody reads the metrics, and when much has been put down.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Any, TypeVar

from workfleet import events

from .model import LabelSet
from .registry import Meter, MetricsRegistry

JOBS = "workfleet_jobs_total"
ENQUEUED = "workfleet_jobs_enqueued_total"
RETRIES = "workfleet_job_retries_total"
RECOVERED = "workfleet_jobs_recovered_total"
CLAIMS_LOST = "workfleet_job_claims_lost_total"
DURATION = "workfleet_job_duration_seconds"
WAIT = "workfleet_job_wait_seconds"
SCHEDULE_RUNS = "workfleet_schedule_runs_total"
SCHEDULE_DURATION = "workfleet_schedule_run_duration_seconds"
SCHEDULE_WAIT = "workfleet_schedule_run_wait_seconds"
FIRES = "workfleet_schedule_fires_total"
LATENESS = "workfleet_schedule_lateness_seconds"
LOCKS = "workfleet_locks_total"
STORE_ERRORS = "workfleet_store_errors_total"
RESTARTS = "workfleet_service_restarts_total"
WORKER_DEATHS = "workfleet_worker_deaths_total"

_PUT_OFF: Mapping[str, str] = MappingProxyType(
    {"given_back": "given_back", "snoozed": "snoozed", "unknown_job": "deferred"}
)
"""Ends of runs that neither completed nor failed, and the words for them here: one word never means both."""
_MOST_METERS = 1_000
_MUCH = 1_000
"""Events of a class that are kept uncounted."""
_T = TypeVar("_T")

_WAIT = attrgetter("name", "queue", "wait_ms")
_END = attrgetter("name", "queue", "state", "outcome", "duration_ms")
_SCHEDULED_WAIT = attrgetter("schedule", "wait_ms")
_SCHEDULED_END = attrgetter("schedule", "state", "outcome", "duration_ms")


class _RunMeters:
    """What is counted of the runs of one job on one queue, or of one schedule. A series begins with the first thing
    that it counts."""

    __slots__ = ("_duration", "_labels", "_names", "_outcomes", "_registry", "_wait")

    def __init__(self, registry: MetricsRegistry, names: tuple[str, str, str], labels: LabelSet) -> None:
        """`names` are those of ended runs, of durations and of waits."""
        self._registry, self._names, self._labels = registry, names, labels
        self._outcomes: dict[str, Meter] = {}
        self._wait: Meter | None = None
        self._duration: Meter | None = None

    def waited(self, ms: int, times: int) -> None:
        if self._wait is None:
            self._wait = self._registry.meter("histogram", self._names[2], self._labels)
        self._wait.observe(ms / 1000, times)

    def ended(self, outcome: str, duration_ms: int | None, times: int) -> None:
        """A duration of None: nobody knows it."""
        meter = self._outcomes.get(outcome)
        if meter is None:
            labels = tuple(sorted((*self._labels, ("outcome", outcome))))
            meter = self._outcomes[outcome] = self._registry.meter("counter", self._names[0], labels)
        meter.add(times)
        if duration_ms is None:
            return
        if self._duration is None:
            self._duration = self._registry.meter("histogram", self._names[1], self._labels)
        self._duration.observe(duration_ms / 1000, times)


class MetricsRecorder:
    """A subscriber of the bus."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._registry = registry
        self._meters: dict[tuple[str, ...], _RunMeters] = {}
        """By job and queue, or by schedule alone."""
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
            self._of_job(name, queue).waited(wait_ms, times)
        for (name, queue, state, outcome, duration_ms), times in Counter(map(_END, settled)).items():
            self._ended(name, queue, _word(state, outcome), duration_ms, times)
        self._count_scheduled(
            [event for event in claimed if event.schedule is not None],
            [event for event in settled if event.schedule is not None],
        )

    def _count_scheduled(self, claimed: list[events.JobClaimed], settled: list[events.JobSettled]) -> None:
        """Once more by schedule: several may share a job. Those of no schedule must cost nothing here."""
        for (schedule, wait_ms), times in Counter(map(_SCHEDULED_WAIT, claimed)).items():
            self._of_schedule(schedule).waited(wait_ms, times)
        for (schedule, state, outcome, duration_ms), times in Counter(map(_SCHEDULED_END, settled)).items():
            self._of_schedule(schedule).ended(_word(state, outcome), duration_ms, times)

    def _enqueued(self, event: events.JobEnqueued) -> None:
        if event.created:
            self._registry.add(ENQUEUED, (("job", event.name), ("queue", event.queue)))

    def _ended(self, name: str, queue: str, word: str, duration_ms: int | None, times: int = 1) -> None:
        self._of_job(name, queue).ended(word, duration_ms, times)
        if word == "retried":
            self._registry.add(RETRIES, (("job", name), ("queue", queue)), times)

    def _of_job(self, name: str, queue: str) -> _RunMeters:
        found = self._meters.get((name, queue))
        return found or self._new((name, queue), (JOBS, DURATION, WAIT), (("job", name), ("queue", queue)))

    def _of_schedule(self, name: str) -> _RunMeters:
        found = self._meters.get((name,))
        return found or self._new((name,), (SCHEDULE_RUNS, SCHEDULE_DURATION, SCHEDULE_WAIT), (("schedule", name),))

    def _new(self, key: tuple[str, ...], names: tuple[str, str, str], labels: LabelSet) -> _RunMeters:
        if len(self._meters) >= _MOST_METERS:
            self._meters.clear()  # names that come from outside must not take the memory
        meters = self._meters[key] = _RunMeters(self._registry, names, labels)
        return meters

    def _recovered(self, event: events.JobRecovered) -> None:
        if event.housekeeping:
            return
        word = _word(event.state, event.outcome)
        if word != "given_back":  # else its worker was stopped, and nothing crashed
            self._registry.add(RECOVERED, (("job", event.name), ("queue", event.queue)))
        self._ended(event.name, event.queue, word, None)
        if event.schedule is not None:
            self._of_schedule(event.schedule).ended(word, None, 1)

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


def _word(state: str, outcome: str) -> str:
    """How a run ended, as the metrics say it: of an end for good the outcome itself."""
    return outcome if state in ("completed", "failed") else _PUT_OFF.get(outcome, "retried")


def _taken(put_down: list[_T]) -> list[_T]:
    """What was put down until now: other threads may put down more meanwhile."""
    taken = put_down[:]
    del put_down[: len(taken)]
    return taken
