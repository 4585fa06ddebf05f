"""`Schedules`: what user code and the command line do with schedules (list, get, add, trigger, pause, resume,
remove)."""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Unpack, cast

from workfleet.enqueueing import Enqueueing
from workfleet.errors import NotFound, UsageError
from workfleet.ids import new_id
from workfleet.jobref import JobRef
from workfleet.model.checks import run_overrides
from workfleet.model.durations import DurationLike, duration_ms, format_duration
from workfleet.model.jobs import FINISHED, JobState
from workfleet.model.jobtypes import NewJob
from workfleet.model.options import RunOptions, ScheduleOptions
from workfleet.model.schedules import ScheduleRecord
from workfleet.model.timing import Every, Manual, timing
from workfleet.ports.clock import Clock
from workfleet.ports.stores import JobQuery, Store

from .declare import check_options
from .due import run_of
from .scheduler import anchored

_MANY = 10_000
_UNFINISHED = tuple(state for state in JobState if state not in FINISHED)
_RUNTIME_OPTIONS = frozenset(ScheduleOptions.__optional_keys__ - {"run_on_start", "pool", "on_timeout"})


@dataclass(frozen=True)
class ScheduleInfo:
    """A schedule as it is shown. `type` is cron, interval, once or manual; `target` is inline or queue."""

    name: str
    provider: str | None
    method: str | None
    description: str
    enabled: bool
    run_on_start: str | None
    type: str
    target: str
    cron: str | None
    interval: str | None
    timezone: str | None
    queue: str
    queue_job: str
    running: bool
    next_due: datetime | None
    last_slot: datetime | None
    last_outcome: str | None
    paused: bool
    orphaned: bool
    fired: int
    skipped: int
    missed: int

    @property
    def id(self) -> str:
        """The schedule's name: it is its identity."""
        return self.name


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
    ) -> None:
        self._store, self._enqueueing, self._clock = store, enqueueing, clock
        self._timezone, self._enabled = timezone, enabled

    async def list(self) -> builtins.list[ScheduleInfo]:
        """Every schedule, by name, those of other processes and orphaned ones included."""
        store = await self._store()
        records = await store.schedules.all()
        running = await _running(store, records)
        return [_info(record, running=record.name in running) for record in records]

    async def get(self, name: str) -> ScheduleInfo:
        """One schedule. Raises `NotFound`."""
        store = await self._store()
        record = await self._record(store, name)
        return _info(record, running=name in await _running(store, [record]))

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
        record = self._runtime_record(name, job, cron, every, at, options)
        store = await self._store()
        await self._refuse_code(store, name, "give another name")
        if anchored(record, await store.now_ms()).next_due_ms is None:
            raise UsageError(f"schedule {name!r}: it would never be due: its time has passed. Enqueue the job instead")
        if not await store.schedules.put(record, replace=replace):
            raise UsageError(f"a schedule named {name!r} exists: give replace=True to change it, or another name")
        return await self.get(name)

    async def trigger(self, name: str) -> Triggered:
        """Run a schedule now, beside its slots and without jitter. Raises `NotFound`; a schedule that is disabled, or
        whose run is not finished while it must not overlap, gives a result that says so."""
        store = await self._store()
        record = await self._record(store, name)
        if not self._enabled:
            return Triggered(None, "the scheduler is switched off (WORKER_SCHEDULER_ENABLED=false)")
        if not record.enabled:
            return Triggered(None, f"the schedule {name!r} is disabled")
        if record.orphaned:
            return Triggered(None, f"the schedule {name!r} is orphaned: no code defines it any more")
        job = run_of(record, new_id(self._clock.now_ms()), None)
        (enqueued,) = await store.jobs.enqueue([job])
        if not enqueued.created:
            return Triggered(None, f"the schedule {name!r} is running already (job {enqueued.id})")
        return Triggered(JobRef(enqueued.id, created=True, jobs=store.jobs, clock=self._clock))

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
            raise self._unknown(name, [record.name for record in await store.schedules.all()])

    async def _refuse_code(self, store: Store, name: str, advice: str) -> None:
        for record in await store.schedules.all():
            if record.name == name and record.from_code and not record.orphaned:
                raise UsageError(f"the schedule {name!r} is defined in code: {advice}")

    async def _record(self, store: Store, name: str) -> ScheduleRecord:
        records = await store.schedules.all()
        for record in records:
            if record.name == name:
                return record
        raise self._unknown(name, [record.name for record in records])

    def _unknown(self, name: str, known: builtins.list[str]) -> NotFound:
        return NotFound(f"there is no schedule {name!r}. Known schedules: {', '.join(known) or 'none'}")

    def _runtime_record(
        self,
        name: str,
        job: NewJob[Any],
        cron: str | None,
        every: DurationLike | None,
        at: datetime | None,
        options: ScheduleOptions,
    ) -> ScheduleRecord:
        template = self._enqueueing.record(job)
        try:
            _check_runtime(name, job, options)
            template.run = run_overrides(cast(RunOptions, {**job.options, **options}))
            when = timing(
                cron=cron,
                every=every,
                at=at,
                offset=options.get("offset"),
                timezone=options.get("timezone", self._timezone),
                dst_gap=options.get("dst_gap", "shift"),
                dst_overlap=options.get("dst_overlap", "first"),
                name=name,
                start=options.get("start"),
                end=options.get("end"),
                skip_on=options.get("skip_on"),
            )
            jitter = options.get("jitter")
            jitter_ms = duration_ms(jitter) if jitter is not None else 0
        except ValueError as error:
            raise UsageError(f"schedule {name!r}: {error}") from None
        if isinstance(when, Manual):
            raise UsageError(f"schedule {name!r}: give one of cron=, every= and at=")
        return ScheduleRecord(
            name=name,
            timing=when,
            fingerprint=new_id(self._clock.now_ms()),
            job=template,
            description=options.get("description", ""),
            facts={"target": "queue"},
            enabled=options.get("enabled", True) is True,
            overlap=options.get("overlap", "skip"),
            jitter_ms=jitter_ms,
            missed=options.get("missed", "once"),
            from_code=False,
        )


def _check_runtime(name: str, job: NewJob[Any], options: ScheduleOptions) -> None:
    """Raise ValueError for what makes no sense in a schedule that is added at run time."""
    if not name or name != name.strip() or not name.isprintable():
        raise ValueError("a name is printable text that is neither empty nor padded")
    for option in options:
        if option not in _RUNTIME_OPTIONS:
            raise ValueError(f"the option {option!r} is not for schedules that are added at run time")
    check_options(options)
    if callable(options.get("skip_on")):
        raise ValueError("skip_on= is dates here: a function cannot be stored")
    if not isinstance(options.get("enabled", True), bool):
        raise ValueError(f"enabled={options.get('enabled')!r}: it is True or False")
    for key in ("id", "at"):
        if key in job.options:
            raise ValueError(f"its job has {key}=, which no two runs can share: leave it out")
    if isinstance(job.options.get("expires"), datetime):
        raise ValueError("its job has expires= at an instant, which no two runs can share: give a duration")
    if "unique" in job.options and options.get("overlap", "skip") == "skip":
        raise ValueError('its job has unique=, which overlap="skip" does already: leave it out, or say overlap="allow"')


async def _running(store: Store, records: Sequence[ScheduleRecord]) -> set[str | None]:
    """Which of the schedules have a run that is not finished, however it was started."""
    found: set[str | None] = set()
    for queue, job in {(record.job.queue, record.job.name) for record in records}:
        query = JobQuery(queue=queue, name=job, states=_UNFINISHED, limit=_MANY)
        found |= {run.schedule for run in await store.jobs.find(query)}
    return found


def _info(record: ScheduleRecord, *, running: bool) -> ScheduleInfo:
    facts, when = record.facts, record.timing
    return ScheduleInfo(
        name=record.name,
        provider=facts.get("provider"),
        method=facts.get("method"),
        description=record.description,
        enabled=record.enabled,
        run_on_start=facts.get("run_on_start"),
        type=when.kind,
        target=facts.get("target", "inline"),
        cron=getattr(when, "expression", None),
        interval=format_duration(when.every_ms) if isinstance(when, Every) else None,
        timezone=getattr(when, "timezone", None),
        queue=facts.get("target_queue", record.job.queue),
        queue_job=facts.get("target_job", record.job.name),
        running=running,
        next_due=_instant(record.next_due_ms if record.enabled and not record.orphaned else None),
        last_slot=_instant(record.last_slot_ms),
        last_outcome=record.last_outcome,
        paused=record.paused,
        orphaned=record.orphaned,
        fired=record.fired,
        skipped=record.skipped,
        missed=record.missed_count,
    )


def _instant(ms: int | None) -> datetime | None:
    return None if ms is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
