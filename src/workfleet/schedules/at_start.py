"""Runs at start: once per process, or once per release in the fleet."""

from __future__ import annotations

from collections.abc import Sequence

from workfleet.ids import derived_id
from workfleet.model.schedules import ScheduleRecord
from workfleet.ports.stores import JobStore, KeyStore

from .due import run_of

_YEAR_MS = 365 * 86_400_000


async def run_per_process(records: Sequence[ScheduleRecord], jobs: JobStore, *, worker: str) -> int:
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
    return sum(enqueued.created for enqueued in await jobs.enqueue(made)) if made else 0


async def run_per_release(records: Sequence[ScheduleRecord], jobs: JobStore, keys: KeyStore, *, release: str) -> int:
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
        (enqueued,) = await jobs.enqueue([job])
        if enqueued.id == job.id:
            # Else its previous run is not finished and must not overlap: the next start tries again.
            await keys.put_if_absent(key, b"1", _YEAR_MS)
        count += enqueued.created
    return count
