"""Measures what the store says of the fleet at an interval: queues, schedules, workers, locks. Is given its reader.

One worker of each machine does so. A queue or schedule that is gone has no series any more; while the store does not
answer, what it said last is told no longer than two intervals: it would show a fleet that may be gone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from workfleet.errors import StoreUnavailable
from workfleet.events import Event, StoreTrouble
from workfleet.ports.clock import Clock
from workfleet.ports.metrics import FleetFacts, FleetReader, QueueFacts, ScheduleFacts

from .model import LabelSet
from .registry import MetricsRegistry

QUEUE_JOBS = "workfleet_queue_jobs"
QUEUE_OLDEST = "workfleet_queue_oldest_job_age_seconds"
QUEUE_PAUSED = "workfleet_queue_paused"
OVERDUE = "workfleet_schedule_overdue_seconds"
LAST_FIRE = "workfleet_schedule_last_fire_timestamp_seconds"
NEXT_SLOT = "workfleet_schedule_next_slot_timestamp_seconds"
WORKERS = "workfleet_workers"
LOCKS_HELD = "workfleet_locks_held"

Series = tuple[str, LabelSet]

_SILENT_INTERVALS = 2


class FleetCollector:
    """A service. An outage of the store only leaves a gap, and is told once.

    Whether the store has answered lately is looked at whenever somebody reads the registry, so that a call which hangs
    counts like one that fails."""

    def __init__(
        self,
        registry: MetricsRegistry,
        read: FleetReader,
        clock: Clock,
        publish: Callable[[Event], None],
        *,
        interval_ms: int = 60_000,
    ) -> None:
        self._registry, self._read, self._clock, self._publish = registry, read, clock, publish
        self._interval_ms = interval_ms
        self._there: set[Series] = set()
        # Metrics are read from threads, too.
        self._lock = threading.Lock()
        self._answered_s: float | None = None
        """When the store answered last; None: what it said then is withheld, or it has said nothing yet."""
        self._ill = False
        self.name = "fleet metrics"
        registry.before_reading(self._withhold_what_is_old)

    async def serve(self) -> None:
        while True:
            try:
                await self.collect()
                self._ill = False
            except StoreUnavailable as error:
                if not self._ill:
                    self._publish(StoreTrouble(what="measuring queues and schedules", error=str(error)))
                self._ill = True
            await self._clock.sleep(self._interval_ms / 1000)

    async def collect(self) -> None:
        """Measure once. Raises `StoreUnavailable`."""
        values = dict(_values(await self._read()))
        with self._lock:
            for name, labels in self._there - set(values):
                self._registry.forget(name, labels)
            for (name, labels), value in values.items():
                self._registry.put(name, labels, value)
            self._there = set(values)
            self._answered_s = self._clock.monotonic()

    def _withhold_what_is_old(self) -> None:
        """Called from any thread."""
        silent_s = _SILENT_INTERVALS * self._interval_ms / 1000
        with self._lock:
            if self._answered_s is not None and self._clock.monotonic() - self._answered_s >= silent_s:
                self._answered_s = None
                for name, labels in self._there:
                    self._registry.withhold(name, labels)


def _values(facts: FleetFacts) -> list[tuple[Series, float]]:
    found: list[tuple[Series, float]] = []
    for queue in facts.queues:
        found += _of_queue(queue)
    for schedule in facts.schedules:
        found += _of_schedule(schedule)
    if facts.workers is not None:
        found.append(((WORKERS, ()), facts.workers))
    if facts.locks_held is not None:
        found.append(((LOCKS_HELD, ()), facts.locks_held))
    return found


def _of_queue(queue: QueueFacts) -> list[tuple[Series, float]]:
    labels = (("queue", queue.name),)
    return [
        *(((QUEUE_JOBS, (*labels, ("state", state))), count) for state, count in queue.jobs.items()),
        ((QUEUE_OLDEST, labels), queue.oldest_age_ms / 1000),
        ((QUEUE_PAUSED, labels), int(queue.paused)),
    ]


def _of_schedule(schedule: ScheduleFacts) -> list[tuple[Series, float]]:
    labels = (("schedule", schedule.name),)
    instants = ((LAST_FIRE, schedule.last_fired_ms), (NEXT_SLOT, schedule.next_slot_ms))
    return [
        ((OVERDUE, labels), schedule.overdue_ms / 1000),
        *(((name, labels), at_ms / 1000) for name, at_ms in instants if at_ms is not None),
    ]
