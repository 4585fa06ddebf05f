"""Which events count as what."""

from __future__ import annotations

from typing import Any

import msgspec

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
        settled("failed", "unknown_job"),
        settled("waiting", "given_back"),
        settled("completed", "completed", housekeeping=True),
    ) == {
        key("jobs_total", **ON, outcome="completed"): (2, 0),
        key("jobs_total", **ON, outcome="timed_out"): (1, 0),
        key("jobs_total", **ON, outcome="retry"): (1, 0),
        key("jobs_total", **ON, outcome="retried"): (3, 0),
        key("jobs_total", **ON, outcome="snoozed"): (1, 0),
        key("jobs_total", **ON, outcome="deferred"): (1, 0),
        key("jobs_total", **ON, outcome="unknown_job"): (1, 0),
        key("jobs_total", **ON, outcome="given_back"): (1, 0),
        key("job_retries_total", **ON): (3, 0),
        key("job_duration_seconds", **ON): (15.5, 11),
    }


def test_enqueued_waited_and_lost() -> None:
    claimed = events.JobClaimed(**JOB, attempt=1, max_attempts=3, wait_ms=250)
    assert recorded(
        events.JobEnqueued(**JOB, created=True),
        events.JobEnqueued(**JOB, created=False),
        claimed,
        events.JobClaimed(**JOB, attempt=1, max_attempts=3, wait_ms=9, housekeeping=True),
        events.ClaimLost(**JOB),
    ) == {
        key("jobs_enqueued_total", **ON): (1, 0),
        key("job_wait_seconds", **ON): (0.25, 1),
        key("job_claims_lost_total", **ON): (1, 0),
    }


def recovered(state: str, outcome: str = "crashed", **rest: Any) -> events.JobRecovered:
    return events.JobRecovered(**{**JOB, "how": "SIGKILL", "worker": "w", "state": state, "outcome": outcome, **rest})


def test_a_run_whose_worker_died_is_one_that_ended_after_nobody_knows_how_long() -> None:
    assert recorded(
        recovered("waiting"),
        recovered("delayed", schedule="nightly"),
        recovered("failed"),
        recovered("failed", schedule="nightly"),
        recovered("failed", "cancelled"),
        recovered("failed", housekeeping=True),
    ) == {
        key("jobs_total", **ON, outcome="retried"): (2, 0),
        key("jobs_total", **ON, outcome="crashed"): (2, 0),
        key("jobs_total", **ON, outcome="cancelled"): (1, 0),
        key("job_retries_total", **ON): (2, 0),
        key("jobs_recovered_total", **ON): (5, 0),
        key("schedule_runs_total", schedule="nightly", outcome="retried"): (1, 0),
        key("schedule_runs_total", schedule="nightly", outcome="crashed"): (1, 0),
    }


def test_of_a_run_that_is_given_back_no_worker_died() -> None:
    assert recorded(recovered("waiting", "given_back"), recovered("waiting", "given_back", housekeeping=True)) == {
        key("jobs_total", **ON, outcome="given_back"): (1, 0)
    }


def test_runs_of_schedules_that_share_a_job() -> None:
    claimed = events.JobClaimed(**JOB, attempt=1, max_attempts=3, wait_ms=250)
    assert recorded(
        claimed,
        msgspec.structs.replace(claimed, schedule="acme"),
        msgspec.structs.replace(claimed, schedule="acme"),
        msgspec.structs.replace(claimed, schedule="bolt", housekeeping=True),
        settled("completed", "completed"),
        settled("completed", "completed", schedule="acme"),
        settled("completed", "completed", schedule="acme", duration_ms=500),
        settled("delayed", "failed", schedule="bolt"),
        settled("failed", "failed", schedule="bolt"),
        settled("completed", "completed", schedule="bolt", housekeeping=True),
    ) == {
        key("jobs_total", **ON, outcome="completed"): (3, 0),
        key("jobs_total", **ON, outcome="retried"): (1, 0),
        key("jobs_total", **ON, outcome="failed"): (1, 0),
        key("job_retries_total", **ON): (1, 0),
        key("job_duration_seconds", **ON): (6.5, 5),
        key("job_wait_seconds", **ON): (0.75, 3),
        key("schedule_runs_total", schedule="acme", outcome="completed"): (2, 0),
        key("schedule_runs_total", schedule="bolt", outcome="retried"): (1, 0),
        key("schedule_runs_total", schedule="bolt", outcome="failed"): (1, 0),
        key("schedule_run_duration_seconds", schedule="acme"): (2.0, 2),
        key("schedule_run_duration_seconds", schedule="bolt"): (3.0, 2),
        key("schedule_run_wait_seconds", schedule="acme"): (0.5, 2),
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
