"""Why a job does not run: what is said of it, its queue, its group and the fleet. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal

from msgspec import Struct

from workfleet.model.durations import format_duration
from workfleet.model.fleet import WorkerRecord
from workfleet.model.jobs import READY, JobRecord, JobState
from workfleet.model.limits import Rate
from workfleet.ports.stores import JobQuery, Place, Store
from workfleet.supervision.identity import is_alive

_SILENT_MS = 100_000
"""Many signs of life, also with a slow poll."""
_NAMED = 10
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Hindrance = Literal[
    "paused", "no_worker", "no_handler", "queue_limit", "group_limit", "rate", "delayed", "backoff", "key_busy",
    "children", "behind", "next",
]  # fmt: skip


class Reason(Struct, frozen=True):
    """One thing for which a job waits. `code` is stable; `text` is for people and completes "it waits for …".

    `paused`: its queue is; `no_worker`: none listens to the queue, or all that do are told not to claim; `no_handler`:
    no living worker knows its name; `queue_limit`, `group_limit`: as many run as may; `rate`: as many have started;
    `delayed`: its time; `backoff`: the time of its next attempt; `key_busy`: the job that runs under its unique key;
    `children`: its child jobs; `behind`: jobs that come before it; `next`: a free slot, it is the next of its group."""

    code: Hindrance
    text: str


async def reasons_to_wait(store: Store, job: JobRecord) -> list[Reason]:
    """What holds the job back; empty when it runs or has finished."""
    if job.state is JobState.WAITING_CHILDREN:
        return [Reason("children", "its child jobs, which have not all finished")]
    if job.state is not JobState.DELAYED and job.state not in READY:
        return []
    now, place = await store.now_ms(), await store.jobs.place(job.id) or Place()
    if job.state is JobState.DELAYED and (delayed := list(_delayed(job, place, now))):
        return delayed + await _workers(store, job, now)
    return await _held_back(store, job, place, now) or [_turn(job, place)]


def _delayed(job: JobRecord, place: Place, now: int) -> Iterator[Reason]:
    if job.parked:
        rival = "the job" if place.rival is None else f"job {place.rival}"
        yield Reason("key_busy", f"{rival}, which runs under its unique key {job.unique_key!r}")
    if job.due_ms > now:
        due = f"{_instant(job.due_ms)} (in {_rough(job.due_ms - now)}); `promote` makes it ready now"
        again = bool(job.history)
        yield Reason("backoff" if again else "delayed", f"its next attempt, {due}" if again else f"its time, {due}")


async def _held_back(store: Store, job: JobRecord, place: Place, now: int) -> list[Reason]:
    record, reasons = (await store.queues.all()).get(job.queue), list[Reason]()
    if record is not None and record.paused:
        reasons.append(Reason("paused", f"queue {job.queue!r} to be resumed: it is paused"))
    reasons += await _workers(store, job, now)
    if record is None:
        return reasons
    limits, group = record.limits, record.limits.of_group(job.group)
    if limits.concurrency is not None and await _active(store, job, None) >= limits.concurrency:
        what = f"one of the {limits.concurrency} jobs that may run at once on queue {job.queue!r} to end"
        reasons.append(Reason("queue_limit", what))
    if group.concurrency is not None and await _active(store, job, job.group) >= group.concurrency:
        what = f"one of the {group.concurrency} jobs that may run at once in group {job.group!r} to end"
        reasons.append(Reason("group_limit", what))
    rates = [rate for rate in (limits.rate, group.rate) if rate is not None]
    if rates and (place.starts_ms is None or place.starts_ms > now):
        until = "" if place.starts_ms is None else f" {_instant(place.starts_ms)}:"
        reasons.append(Reason("rate", f"its turn,{until} at most {' and '.join(map(_rate, rates))} start"))
    return reasons


async def _workers(store: Store, job: JobRecord, now: int) -> list[Reason]:
    """Whether no worker would claim and run it, and why."""
    queue = job.queue
    listening = [worker for worker in await store.fleet.workers() if queue in worker.queues]
    if not listening:
        return [Reason("no_worker", f"a worker that listens to queue {queue!r}: none does")]
    alive = [w for w in listening if now - w.seen_ms < _SILENT_MS and is_alive(w.identity)]
    if not alive:
        return [Reason("no_worker", f"a worker that listens to queue {queue!r}: {_those(listening)} is gone")]
    if all(worker.instruction is not None for worker in alive):
        told = ", ".join(sorted({worker.instruction or "" for worker in alive}))
        text = f"a worker that listens to queue {queue!r} and claims: {_those(alive)} was told to {told}"
        return [Reason("no_worker", text)]
    if all(queue in worker.handlers and job.name not in worker.handlers[queue] for worker in alive):
        known = sorted({name for worker in alive for name in worker.handlers[queue]})
        return [Reason("no_handler", f"a worker that has a handler {job.name!r}: {_known(alive, known)}")]
    return []


def _turn(job: JobRecord, place: Place) -> Reason:
    where = f"a free slot of a worker on queue {job.queue!r}"
    of = f" of group {job.group!r}" if job.group else ""
    if not place.ahead:
        return Reason("next", f"{where}: it is the next{of}")
    return Reason("behind", f"{where}, behind {place.ahead:,} {'job' if place.ahead == 1 else 'jobs'}{of}")


def _those(workers: Sequence[WorkerRecord]) -> str:
    first = workers[0].id
    return first if len(workers) == 1 else f"{first} and {len(workers) - 1} more"


def _known(workers: Sequence[WorkerRecord], names: Sequence[str]) -> str:
    who = workers[0].id if len(workers) == 1 else f"all {len(workers)} that listen"
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{who} know{'s' if len(workers) == 1 else ''} {', '.join(names[:_NAMED]) or 'none'}{more}"


async def _active(store: Store, job: JobRecord, group: str | None) -> int:
    """How many jobs of the queue, or of one of its groups, run now; no more are counted than is any limit."""
    if group is None:
        counts = (await store.jobs.counts()).get(job.queue)
        return 0 if counts is None else counts.active
    return len(await store.jobs.find(JobQuery(job.queue, (JobState.ACTIVE,), group=group, limit=10_000)))


def _rate(rate: Rate) -> str:
    return f"{rate.limit} in {format_duration(rate.per_ms)}"


def _instant(ms: int) -> str:
    return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="seconds").replace("+00:00", "Z")


def _rough(ms: int) -> str:
    """To the second: nobody waits for milliseconds."""
    return format_duration(max(ms // 1000, 1) * 1000)
