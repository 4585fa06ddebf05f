"""Which events count as what."""

from __future__ import annotations

from typing import Any

from workfleet import events
from workfleet.observe.metrics.catalogue import CATALOGUE
from workfleet.observe.metrics.recorder import MetricsRecorder
from workfleet.observe.metrics.registry import MetricsRegistry

ON = {"queue": "media", "job": "thumb"}
JOB = {"id": "i", "name": "thumb", "queue": "media"}


def recorded(*happened: events.Event) -> dict[tuple[str, tuple[tuple[str, str], ...]], tuple[float, int]]:
    registry = MetricsRegistry()
    recorder = MetricsRecorder(registry)
    for event in happened:
        hear = recorder.route(type(event))
        if hear is not None:
            hear(event)
    samples = registry.snapshot()
    for each in samples:  # what is counted is what the catalogue says
        metric = CATALOGUE[each.name]
        assert (metric.kind, metric.labels) == (each.kind, tuple(label for label, _ in each.labels))
    return {(each.name, each.labels): (each.value, each.count) for each in samples}


def settled(state: str, outcome: str, **rest: Any) -> events.JobSettled:
    return events.JobSettled(**{**JOB, "state": state, "outcome": outcome, "attempt": 1, "duration_ms": 1500, **rest})


def key(name: str, **labels: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    return f"workfleet_{name}", tuple(sorted(labels.items()))


def test_runs_by_outcome_with_their_durations() -> None:
    assert recorded(
        settled("completed", "completed"),
        settled("completed", "completed", duration_ms=500),
        settled("failed", "timed_out"),
        settled("failed", "retry"),
        settled("delayed", "failed"),
        settled("delayed", "retry"),
        settled("waiting", "crashed"),
        settled("delayed", "snoozed"),
        settled("delayed", "unknown_job"),
        settled("waiting", "given_back"),
        settled("completed", "completed", housekeeping=True),
    ) == {
        key("jobs_total", **ON, outcome="completed"): (2, 0),
        key("jobs_total", **ON, outcome="timed_out"): (1, 0),
        key("jobs_total", **ON, outcome="retry"): (1, 0),
        key("jobs_total", **ON, outcome="retried"): (3, 0),
        key("jobs_total", **ON, outcome="snoozed"): (1, 0),
        key("jobs_total", **ON, outcome="unknown_job"): (1, 0),
        key("jobs_total", **ON, outcome="given_back"): (1, 0),
        key("job_retries_total", **ON): (3, 0),
        key("job_duration_seconds", **ON): (14.0, 10),
    }


def test_enqueued_waited_recovered_and_lost() -> None:
    claimed = events.JobClaimed(**JOB, attempt=1, max_attempts=3, wait_ms=250)
    assert recorded(
        events.JobEnqueued(**JOB, created=True),
        events.JobEnqueued(**JOB, created=False),
        claimed,
        events.JobClaimed(**JOB, attempt=1, max_attempts=3, wait_ms=9, housekeeping=True),
        events.JobRecovered(**JOB, how="SIGKILL", state="waiting", worker="w"),
        events.ClaimLost(**JOB),
    ) == {
        key("jobs_enqueued_total", **ON): (1, 0),
        key("job_wait_seconds", **ON): (0.25, 1),
        key("jobs_recovered_total", **ON): (1, 0),
        key("job_claims_lost_total", **ON): (1, 0),
    }


def test_schedules() -> None:
    assert recorded(
        events.ScheduleFired(schedule="nightly", slot_ms=1, late_ms=2000),
        events.ScheduleFired(schedule="nightly", slot_ms=2, late_ms=0),
        events.ScheduleSkipped(schedule="nightly", slot_ms=3, reason="still running"),
        events.ScheduleMissed(schedule="nightly", slot_ms=9, count=5),
    ) == {
        key("schedule_fires_total", schedule="nightly", outcome="fired"): (2, 0),
        key("schedule_fires_total", schedule="nightly", outcome="skipped"): (1, 0),
        key("schedule_fires_total", schedule="nightly", outcome="missed"): (5, 0),
        key("schedule_lateness_seconds", schedule="nightly"): (2.0, 2),
    }


def test_the_rest() -> None:
    assert recorded(
        events.LockAcquired(lock="a", fence=1),
        events.LockAcquired(lock="b", fence=2),
        events.LockBusySkipped(lock="a", holder="w", name="f"),
        events.LockLostEvent(lock="a"),
        events.StoreTrouble(what="w", error="e"),
        events.ServiceRestarted(service="claimer", error="e", delay_ms=1),
        events.WorkerDied(pid=1, how="SIGKILL"),
        events.WorkerReady(worker="w", queues="q"),
    ) == {
        key("locks_total", outcome="acquired"): (2, 0),
        key("locks_total", outcome="busy"): (1, 0),
        key("locks_total", outcome="lost"): (1, 0),
        key("store_errors_total"): (1, 0),
        key("service_restarts_total", service="claimer"): (1, 0),
        key("worker_deaths_total"): (1, 0),
    }
