"""Runs at start: once per process, or once per release in the fleet."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workfleet.events import Event
from workfleet.ids import derived_id
from workfleet.model.jobs import Enqueued, JobRecord
from workfleet.model.schedules import ScheduleRecord
from workfleet.ports.jobs import JobStore
from workfleet.ports.stores import KeyStore

from .due import run_of
from .telling import enqueued

_YEAR_MS = 365 * 86_400_000


async def run_per_process(
    records: Sequence[ScheduleRecord], jobs: JobStore, *, worker: str, publish: Callable[[Event], None]
) -> int:
    """Enqueue one run of each schedule for this process. Returns how many were made; an overlapping one is not."""
    made = []
    for record in records:
        job = run_of(record, derived_id(record.name, worker, "start"), None)
        job.delay_ms = int(record.facts.get("start_delay_ms", 0))
        if job.expires_after_ms is not None:
            job.expires_after_ms += job.delay_ms
        job.metadata = {**job.metadata, "worker": worker}
        if record.facts.get("scope") == "process" and job.unique_key is not None:
            job.unique_key = f"{job.unique_key} {worker}"
        made.append(job)
    return _told(made, await jobs.enqueue(made), publish) if made else 0


async def run_per_release(
    records: Sequence[ScheduleRecord],
    jobs: JobStore,
    keys: KeyStore,
    *,
    release: str,
    publish: Callable[[Event], None],
) -> int:
    """Enqueue one run of each schedule for this release of the fleet.

    The job's id derives from the release, so that processes that start together make one job; the key remembers the
    release after that job was pruned. Between the two steps nothing is lost: the next start repeats the first.
    """
    count = 0
    for record in records:
        key = f"release {record.name} {release}"
        if await keys.get(key) is not None:
            continue
        job = run_of(record, derived_id(record.name, "release", release), None)
        (answer,) = await jobs.enqueue([job])
        if answer.id == job.id:
            # Else its previous run is not finished and must not overlap: the next start tries again.
            await keys.put_if_absent(key, b"1", _YEAR_MS)
        count += _told([job], [answer], publish)
    return count


def _told(made: Sequence[JobRecord], answers: Sequence[Enqueued], publish: Callable[[Event], None]) -> int:
    """Tell of the jobs that were added. Returns how many."""
    added = [job for job, answer in zip(made, answers, strict=True) if answer.created]
    for job in added:
        if not job.housekeeping:
            publish(enqueued(job))
    return len(added)
