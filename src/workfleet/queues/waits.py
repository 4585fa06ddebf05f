"""Why a job does not run: what is said of it, its queue, its group and the fleet. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal

from msgspec import Struct

from workfleet.model.durations import format_duration
from workfleet.model.fleet import PoolReport, WorkerRecord
from workfleet.model.jobs import READY, JobRecord, JobState
from workfleet.model.limits import Rate
from workfleet.ports.jobs import JobQuery, Place
from workfleet.ports.stores import Store
from workfleet.supervision.identity import is_alive

_SILENT_MS = 100_000
"""Many signs of life, also with a slow poll."""
_NAMED = 10
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Hindrance = Literal[
    "paused", "no_worker", "no_handler", "queue_limit", "group_limit", "rate", "delayed", "backoff", "key_busy",
    "children", "expired", "doomed", "behind", "next", "pool", "lease", "silent",
]  # fmt: skip


class Reason(Struct, frozen=True):
    """One thing for which a job waits. `code` is stable; `text` is for people and completes "it waits for …".

    `paused`: its queue is; `no_worker`: none listens to the queue, or all that do are told not to claim; `no_handler`:
    no living worker knows its name; `queue_limit`, `group_limit`: as many run as may; `rate`: as many have started;
    `delayed`: its time; `backoff`: the time of its next attempt; `key_busy`: the job that runs under its unique key;
    `children`: its child jobs; `expired`, `doomed`: it is not run any more, but failed; `behind`: jobs that come before
    it; `next`: a free slot, it is the next of its group. Of one that is active: `pool`: a place in a process pool;
    `lease`: its worker is gone, so it runs again when its lease is over; `silent`: its worker, of which nothing is
    heard."""

    code: Hindrance
    text: str


async def reasons_to_wait(store: Store, job: JobRecord) -> list[Reason]:
    """What holds the job back; empty when it runs or has finished."""
    now = await store.now_ms()
    if job.state is JobState.WAITING_CHILDREN:
        children = await store.jobs.children(job.id, queue=job.queue)
        ended = len(children.results) + len(children.failures)
        return [Reason("children", f"its child jobs, which have not all finished: {ended:,} {_have(ended)}")]
    if job.state is JobState.ACTIVE:
        return await _interrupted(store, job, now)
    if job.state is not JobState.DELAYED and job.state not in READY:
        return []
    place = await store.jobs.place(job.id, queue=job.queue) or Place()
    if (ended_by := _not_run(job, now)) is not None:
        return [ended_by, *await _workers(store, job, now)]
    if job.state is JobState.DELAYED and (delayed := list(_delayed(job, place, now))):
        return delayed + await _workers(store, job, now)
    return await _held_back(store, job, place, now) or [_turn(job, place)]


def _delayed(job: JobRecord, place: Place, now: int) -> Iterator[Reason]:
    if job.parked:
        rival = "the job" if place.rival is None else f"job {place.rival}"
        yield Reason("key_busy", f"{rival}, which runs under its unique key {job.unique_key!r}")
    if job.due_ms > now:
        due = f"{_instant(job.due_ms)} (in {_rough(job.due_ms - now)}); `promote` makes it ready now"
        again = bool(job.history) or job.started_ms is not None
        yield Reason("backoff" if again else "delayed", f"its next attempt, {due}" if again else f"its time, {due}")


def _not_run(job: JobRecord, now: int) -> Reason | None:
    """Whoever claims it ends it without running it."""
    if job.doomed is not None:
        return Reason("doomed", f"a worker that fails it: {job.doomed.said()}")
    if job.expires_ms is not None and job.expires_ms <= max(now, job.due_ms):
        when = "expired" if job.expires_ms <= now else "will have expired"
        return Reason("expired", f"a worker that fails it: it {when} at {_instant(job.expires_ms)}")
    return None


async def _interrupted(store: Store, job: JobRecord, now: int) -> list[Reason]:
    """Why an active job makes no progress, as far as others than its own code are the reason."""
    worker = next((each for each in await store.fleet.workers() if each.id == job.worker), None)
    until = job.lease_until_ms
    if until is not None and until <= now:
        text = f"a worker that takes it back and runs it again: its lease was over at {_instant(until)}"
        return [Reason("lease", text), *await _workers(store, job, now)]
    if worker is None:
        return []
    if not is_alive(worker.identity):
        end = "" if until is None else f" at {_instant(until)} (in {_rough(until - now)})"
        return [Reason("lease", f"the end of its lease{end}, to run again: its worker is gone")]
    silent_ms = now - worker.seen_ms
    if silent_ms >= _SILENT_MS:
        return [Reason("silent", f"its worker, of which nothing is heard for {_rough(silent_ms)}")]
    return [_place_in(pool, silent_ms) for pool in worker.pools if job.id in pool.waiting]


def _place_in(pool: PoolReport, told_ms: int) -> Reason:
    most = (
        f"{pool.busy} of {pool.size} are busy, and {pool.queued:,} {'call waits' if pool.queued == 1 else 'calls wait'}"
    )
    return Reason("pool", f"a free child of pool {pool.name!r}: {most}, as its worker said {_rough(told_ms)} ago")


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
    found = _nobody(job, [worker for worker in await store.fleet.workers() if queue in worker.queues], now)
    # A worker of another program takes what there is, and what it knows it does not say.
    return [] if found is None or queue in await store.exam.strangers() else [found]


def _nobody(job: JobRecord, listening: Sequence[WorkerRecord], now: int) -> Reason | None:
    queue = job.queue
    if not listening:
        return Reason("no_worker", f"a worker that listens to queue {queue!r}: none does")
    there = [worker for worker in listening if is_alive(worker.identity)]
    if not there:
        return Reason(
            "no_worker", f"a worker that listens to queue {queue!r}: {_those(listening)} {_are(listening)} gone"
        )
    heard = [worker for worker in there if now - worker.seen_ms < _SILENT_MS]
    if not heard:
        silent_ms = min(now - worker.seen_ms for worker in there)
        text = f"a worker that listens to queue {queue!r}: of {_those(there)} nothing is heard for {_rough(silent_ms)}"
        return Reason("no_worker", text)
    claiming = [worker for worker in heard if worker.instruction is None]
    if not claiming:
        told = ", ".join(sorted({worker.instruction or "" for worker in heard}))
        text = f"a worker that listens to queue {queue!r} and claims: {_those(heard)} {_was(heard)} told to {told}"
        return Reason("no_worker", text)
    if all(queue in worker.handlers and job.name not in worker.handlers[queue] for worker in claiming):
        known = sorted({name for worker in claiming for name in worker.handlers[queue]})
        return Reason("no_handler", f"a worker that has a handler {job.name!r}: {_known(claiming, known)}")
    return None


def _turn(job: JobRecord, place: Place) -> Reason:
    where = f"a free slot of a worker on queue {job.queue!r}"
    of = f" of group {job.group!r}" if job.group else ""
    if not place.ahead:
        return Reason("next", f"{where}: it is the next{of}")
    return Reason("behind", f"{where}, behind {place.ahead:,} {'job' if place.ahead == 1 else 'jobs'}{of}")


def _those(workers: Sequence[WorkerRecord]) -> str:
    first = workers[0].id
    return first if len(workers) == 1 else f"{first} and {len(workers) - 1} more"


def _have(number: int) -> str:
    return "has" if number == 1 else "have"


def _are(workers: Sequence[WorkerRecord]) -> str:
    return "is" if len(workers) == 1 else "are"


def _was(workers: Sequence[WorkerRecord]) -> str:
    return "was" if len(workers) == 1 else "were"


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
