"""`Schedules`: what user code and the command line do with schedules (list, get, add, trigger, pause, resume,
remove)."""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Unpack

from workfleet.enqueueing import Enqueueing
from workfleet.errors import NotFound, UsageError
from workfleet.events import Event
from workfleet.ids import new_id
from workfleet.jobref import JobRef
from workfleet.model.durations import DurationLike
from workfleet.model.jobs import FINISHED, JobState
from workfleet.model.jobtypes import NewJob
from workfleet.model.options import ScheduleOptions
from workfleet.model.schedules import ScheduleRecord
from workfleet.ports.clock import Clock
from workfleet.ports.jobs import JobQuery
from workfleet.ports.stores import Store

from .due import run_of
from .history import PastRun, history
from .in_the_way import cancel_others, in_the_way
from .info import ScheduleInfo, info_of
from .runtime import runtime_record
from .scheduler import anchored
from .telling import enqueued

_MANY = 10_000
_TOLD = 20
"""So many names stand in an error; there may be 100,000."""
_UNFINISHED = tuple(state for state in JobState if state not in FINISHED)


@dataclass(frozen=True)
class Triggered:
    """What became of a trigger: the run's job, or why there is none."""

    ref: JobRef[Any] | None
    reason: str | None = None

    @property
    def accepted(self) -> bool:
        return self.ref is not None


class Schedules:
    """All schedules of the app, in the store that the fleet shares."""

    def __init__(
        self,
        store: Callable[[], Awaitable[Store]],
        enqueueing: Enqueueing,
        clock: Clock,
        *,
        timezone: str,
        enabled: bool,
        publish: Callable[[Event], None],
    ) -> None:
        self._store, self._enqueueing, self._clock = store, enqueueing, clock
        self._timezone, self._enabled, self._publish = timezone, enabled, publish

    async def list(self) -> builtins.list[ScheduleInfo]:
        """Every schedule, by name, those of other processes and orphaned ones included."""
        store = await self._store()
        records = await store.schedules.all()
        running, now = await _running(store, records), await store.now_ms()
        return [info_of(record, running=record.name in running, now_ms=now) for record in records]

    async def get(self, name: str) -> ScheduleInfo:
        """One schedule. Raises `NotFound`."""
        store = await self._store()
        record = await self._record(store, name)
        running = name in await _running(store, [record])
        return info_of(record, running=running, now_ms=await store.now_ms())

    async def history(self, name: str, *, limit: int = 100) -> builtins.list[PastRun]:
        """What became of a schedule's runs and slots, the newest first: a row for each attempt, and for slots that made
        no run. It is kept apart from jobs (`history_age`, `history_count` of the scheduler), and when the schedule is
        removed. Raises `NotFound` for a name of which nothing is known, `UsageError` for a limit below 1."""
        store = await self._store()
        runs = await history(store.ledger, name, limit)
        if not runs:
            await self._record(store, name)
        return runs

    async def add(
        self,
        name: str,
        job: NewJob[Any],
        /,
        *,
        cron: str | None = None,
        every: DurationLike | None = None,
        at: datetime | None = None,
        replace: bool = False,
        **options: Unpack[ScheduleOptions],
    ) -> ScheduleInfo:
        """Add a schedule that enqueues a job at each slot. It is kept through restarts.

        Raises `UsageError` for options that make no sense, for a name that exists unless `replace`, and for one that
        code defines. Raises `PayloadRejected`."""
        record = runtime_record(
            name,
            job,
            options,
            cron=cron,
            every=every,
            at=at,
            timezone=self._timezone,
            enqueueing=self._enqueueing,
            fingerprint=new_id(self._clock.now_ms()),
        )
        store = await self._store()
        await self._refuse_code(store, name, "give another name")
        if anchored(record, await store.now_ms()).next_due_ms is None:
            why = "its time has passed" if at is not None else "no slot is left by its start, end and skip_on"
            raise UsageError(f"schedule {name!r}: it would never be due: {why}. Enqueue the job instead")
        if not await store.schedules.put(record, replace=replace):
            advice = "give replace=True (--replace) to change it, or another name"
            raise UsageError(f"a schedule named {name!r} exists: {advice}")
        return await self.get(name)

    async def trigger(self, name: str) -> Triggered:
        """Run a schedule now, beside its slots and without jitter. Raises `NotFound`; a schedule that is disabled, or
        whose run is not finished while it must not overlap, gives a result that says so. With `overlap` "queue_one" and
        "cancel_running" the run waits for the end of the one that goes on, of which the latter asks it."""
        store = await self._store()
        record = await self._record(store, name)
        if not self._enabled:
            return Triggered(None, "the scheduler is switched off (WORKER_SCHEDULER_ENABLED=false)")
        if not record.enabled:
            return Triggered(None, f"the schedule {name!r} is disabled")
        if record.orphaned:
            return Triggered(None, f"the schedule {name!r} is orphaned: no code defines it any more")
        job = run_of(record, new_id(self._clock.now_ms()), None)
        (answer,) = await store.jobs.enqueue([job])
        if not answer.created:
            return Triggered(None, await in_the_way(store.jobs, record, answer.id))
        if not job.housekeeping:
            self._publish(enqueued(job))
        if record.overlap == "cancel_running":
            await cancel_others(store.jobs, record, answer.id)
        return Triggered(JobRef(answer.id, created=True, jobs=store.jobs, clock=self._clock))

    async def pause(self, name: str) -> None:
        """Fire no more until `resume`. Raises `NotFound`."""
        await self._set_paused(name, paused=True)

    async def resume(self, name: str) -> None:
        """Fire again; slots that passed meanwhile count as missed by the schedule's policy. Raises `NotFound`."""
        await self._set_paused(name, paused=False)

    async def remove(self, name: str) -> bool:
        """Delete a schedule that was added at run time, or an orphaned one. False when there is none of that name.

        Raises `UsageError` for one that code defines: it would be back at the next start.
        """
        store = await self._store()
        await self._refuse_code(store, name, "remove it there, or pause it here")
        return await store.schedules.remove(name)

    async def _set_paused(self, name: str, *, paused: bool) -> None:
        store = await self._store()
        if not await store.schedules.set_paused(name, paused=paused):
            raise await _unknown(store, name)

    async def _refuse_code(self, store: Store, name: str, advice: str) -> None:
        (record,) = await store.schedules.get([name])
        if record is not None and record.from_code and not record.orphaned:
            raise UsageError(f"the schedule {name!r} is defined in code: {advice}")

    async def _record(self, store: Store, name: str) -> ScheduleRecord:
        (record,) = await store.schedules.get([name])
        if record is None:
            raise await _unknown(store, name)
        return record


async def _unknown(store: Store, *names: str) -> NotFound:
    return unknown_schedules(names, [record.name for record in await store.schedules.all()])


def unknown_schedules(names: Sequence[str], known: Sequence[str]) -> NotFound:
    """The error for names of which there are no schedules. It says some of those that there are."""
    told = ", ".join(known[:_TOLD]) or "none"
    more = f" and {len(known) - _TOLD:,} more" if len(known) > _TOLD else ""
    return NotFound(f"there is no schedule {', '.join(map(repr, names))}. Known schedules: {told}{more}")


async def _running(store: Store, records: Sequence[ScheduleRecord]) -> set[str | None]:
    """Which of the schedules have a run that is not finished, however it was started."""
    found: set[str | None] = set()
    for queue, job in {(record.job.queue, record.job.name) for record in records}:
        query = JobQuery(queue=queue, name=job, states=_UNFINISHED, limit=_MANY)
        found |= {run.schedule for run in await store.jobs.find(query)}
    return found
