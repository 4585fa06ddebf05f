"""Why a job does not run: what is said of it, its queue, its group and the fleet. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from workfleet.model.durations import format_duration
from workfleet.model.fleet import WorkerRecord
from workfleet.model.jobs import READY, JobRecord, JobState
from workfleet.model.limits import Rate
from workfleet.ports.stores import JobQuery, Store
from workfleet.supervision.identity import is_alive

_SILENT_MS = 100_000
"""Many signs of life, also with a slow poll."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def reasons_to_wait(store: Store, job: JobRecord) -> list[str]:
    """What holds the job back, as sentences; empty when nothing does, or when it runs or has finished."""
    if job.state is JobState.DELAYED:
        return await _delayed(store, job)
    if job.state is JobState.WAITING_CHILDREN:
        return ["its child jobs, which have not all finished"]
    if job.state not in READY:
        return []
    reasons = await _held_back(store, job)
    return reasons or [await _turn(store, job)]


async def _delayed(store: Store, job: JobRecord) -> list[str]:
    reasons = []
    if job.parked:
        reasons.append(f"the job that runs under its unique key {job.unique_key!r}")
    now = await store.now_ms()
    if job.due_ms > now:
        due = (_EPOCH + timedelta(milliseconds=job.due_ms)).isoformat(timespec="seconds").replace("+00:00", "Z")
        what = "its next attempt" if job.history else "its time"
        reasons.append(f"{what}, {due} (in {_rough(job.due_ms - now)}); `promote` makes it ready now")
    return reasons or [await _turn(store, job)]


async def _held_back(store: Store, job: JobRecord) -> list[str]:
    records = await store.queues.all()
    record, reasons = records.get(job.queue), list[str]()
    if record is not None and record.paused:
        reasons.append(f"queue {job.queue!r} to be resumed: it is paused")
    reasons += await _no_worker(store, job.queue)
    if record is None:
        return reasons
    limits = record.limits
    if limits.concurrency is not None and await _active(store, job, None) >= limits.concurrency:
        reasons.append(f"one of the {limits.concurrency} jobs that may run at once on queue {job.queue!r} to end")
    group = limits.of_group(job.group)
    if group.concurrency is not None and await _active(store, job, job.group) >= group.concurrency:
        reasons.append(f"one of the {group.concurrency} jobs that may run at once in group {job.group!r} to end")
    rates = [rate for rate in (limits.rate, group.rate) if rate is not None]
    if rates and not reasons:
        reasons.append(f"its turn: at most {' and '.join(map(_rate, rates))} start")
    return reasons


async def _no_worker(store: Store, queue: str) -> list[str]:
    """Whether no worker would claim from the queue, and why."""
    listening = [worker for worker in await store.fleet.workers() if queue in worker.queues]
    if not listening:
        return [f"a worker that listens to queue {queue!r}: none does"]
    now = await store.now_ms()
    alive = [w for w in listening if now - w.seen_ms < _SILENT_MS and is_alive(w.identity)]
    if not alive:
        return [f"a worker that listens to queue {queue!r}: {_those(listening)} is gone"]
    if all(worker.instruction is not None for worker in alive):
        told = ", ".join(sorted({worker.instruction or "" for worker in alive}))
        return [f"a worker that listens to queue {queue!r} and claims: {_those(alive)} was told to {told}"]
    return []


def _those(workers: Sequence[WorkerRecord]) -> str:
    first = workers[0].id
    return first if len(workers) == 1 else f"{first} and {len(workers) - 1} more"


async def _active(store: Store, job: JobRecord, group: str | None) -> int:
    """How many jobs of the queue, or of one of its groups, run now; no more are counted than is any limit."""
    if group is None:
        counts = (await store.jobs.counts()).get(job.queue)
        return 0 if counts is None else counts.active
    return len(await store.jobs.find(JobQuery(job.queue, (JobState.ACTIVE,), group=group, limit=10_000)))


async def _turn(store: Store, job: JobRecord) -> str:
    counts = (await store.jobs.counts()).get(job.queue)
    ready = 0 if counts is None else counts.waiting + counts.prioritized
    others = "no other job is" if ready <= 1 else f"{ready:,} jobs are"
    return f"a free slot of a worker on queue {job.queue!r}, where {others} ready"


def _rate(rate: Rate) -> str:
    return f"{rate.limit} in {format_duration(rate.per_ms)}"


def _rough(ms: int) -> str:
    """To the second: nobody waits for milliseconds."""
    return format_duration(max(ms // 1000, 1) * 1000)
