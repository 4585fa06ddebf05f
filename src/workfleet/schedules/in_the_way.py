"""The runs that are in the way of a triggered one. A fire judges them in the store, in one step with its job."""

from __future__ import annotations

from workfleet.model.jobs import FINISHED, JobState
from workfleet.model.schedules import COALESCING, ScheduleRecord
from workfleet.ports.jobs import JobQuery, JobStore

_UNFINISHED = tuple(state for state in JobState if state not in FINISHED)
_MANY = 10_000


async def in_the_way(jobs: JobStore, record: ScheduleRecord, job_id: str) -> str:
    """Why a schedule is not run because of an unfinished run."""
    (there,) = await jobs.get([job_id])
    if record.overlap in COALESCING and there is not None and there.started_ms is None:
        return f"the schedule {record.name!r} has a run that waits already (job {job_id})"
    return f"the schedule {record.name!r} is running already (job {job_id})"


async def cancel_others(jobs: JobStore, record: ScheduleRecord, job_id: str) -> None:
    """Cancel the runs that have begun, in favour of one that waits for their end, so that it matters to nobody's
    safety whether this happens."""
    query = JobQuery(queue=record.job.queue, name=record.job.name, states=_UNFINISHED, limit=_MANY)
    runs = [run for run in await jobs.find(query) if run.schedule == record.name and run.id != job_id]
    await jobs.cancel([run.id for run in runs if run.started_ms is not None], queue=record.job.queue)
