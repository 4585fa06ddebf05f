"""What is told of a run that was settled: how it ended, and the jobs that it made."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from workfleet.events import JobEnqueued, JobSettled
from workfleet.model.jobs import JobRecord
from workfleet.model.outcome import Outcome


def settled(record: JobRecord, outcome: Outcome, now_ms: int) -> JobSettled:
    """The event of a run's end that the store has."""
    return JobSettled(
        id=record.id,
        name=record.name,
        queue=record.queue,
        state=outcome.state,
        outcome=outcome.code,
        attempt=record.attempts_made + 1,
        duration_ms=max(now_ms - (record.started_ms or 0), 0),
        started_ms=record.started_ms or 0,
        ended_ms=now_ms if outcome.attempt is None else outcome.attempt.ended_ms,
        error=outcome.failure.said() if outcome.failure else None,
        delay_ms=outcome.delay_ms,
        schedule=record.schedule,
        slot_ms=record.slot_ms,
        housekeeping=record.housekeeping,
    )


def made(outcome: Outcome, left_out: Collection[int]) -> Iterator[JobEnqueued]:
    """An event of each job that the run returned and the store has added: all but those at the places `left_out`."""
    for place, job in enumerate(outcome.follow_up):
        if place not in left_out and not job.housekeeping:
            yield JobEnqueued(id=job.id, name=job.name, queue=job.queue, created=True)
