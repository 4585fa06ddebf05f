"""`Fleet`: a whole application in one process for tests. No server, no files, no waiting: a test moves the clock.

Everything is the product's own, on the memory store: schedules fire, handlers run with injection, guards and retries.
Only pools are doubles (see `pools.py`). Between two calls of the test nothing is claimed and nothing fires.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Self, TypeVar

from workfleet.app.app import App
from workfleet.app.builtins import Basis
from workfleet.app.client import Client, Session
from workfleet.app.composition import compose_isolated
from workfleet.app.runtime import Runtime
from workfleet.app.runtime_options import RuntimeOptions
from workfleet.bus import Bus
from workfleet.errors import UsageError, WorkfleetError
from workfleet.events import Event, JobSettled
from workfleet.jobref import JobRef
from workfleet.model.checks import instant_ms as datetime_ms
from workfleet.model.durations import DurationLike, duration_ms
from workfleet.model.jobs import Attempt, JobRecord, JobState
from workfleet.model.jobtypes import NewJob
from workfleet.ports.clock import Clock
from workfleet.ports.jobs import JobQuery
from workfleet.schedules.due import fire_time_ms, is_live
from workfleet.stores.memory.store import MemoryStore

from .clock import OwnTaskClock, Patience, TestClock, instant_ms, real_pause
from .doubles import PoolDoubles
from .pools import PoolDouble

T = TypeVar("T")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TURNS = 10
"""Of the event loop, after which a run that can be cancelled has been."""
_ALL = 1_000_000
_NEARLY_ONE = 0.999_999_999


@dataclass(frozen=True)
class Run:
    """One run of a schedule: its slot (None: triggered, or run at start), and how it ended, or the state it is in."""

    slot: datetime | None
    outcome: str


class Fleet(Client):
    """`async with Fleet(app, now="2027-03-27T12:00Z", replace={Smtp: smtp}) as fleet:`, a `Client` of its own workers.

    `replace` puts objects in the place of what the application provides or is made of, by type. `settings` are all the
    settings there are, nested as in a settings file, over what the code gives: the environment, `.env` and
    `workfleet.yaml` are not read, so that a test does the same on every machine. The built-in jobs are left out, and
    backoffs wait their full length. `patience` is how long, in real time, a call waits for runs that do not end.

    `enqueued` are the jobs that were enqueued, by the test, by handlers and by schedules, in order; `events` is
    everything that happened; `clock` is the clock.
    """

    def __init__(
        self,
        app: App,
        *,
        now: str = "2027-01-01T00:00Z",
        replace: Mapping[type[Any], Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        patience: DurationLike = "30s",
    ) -> None:
        super().__init__()
        self._app, self._replace, self._settings = app, dict(replace or {}), dict(settings or {})
        self._patience_ms = duration_ms(patience)
        self.clock = TestClock(instant_ms(now))
        self.events: list[Event] = []
        self._own_clock = OwnTaskClock(self.clock)
        self._seen: list[tuple[NewJob[Any], JobRecord]] = []
        self._happened = 0
        self._runtime: Runtime | None = None

    async def __aenter__(self) -> Self:
        if self._runtime is not None:
            raise UsageError("this fleet is running already")
        said = {**self._settings, "store": "memory://"}
        basis = Basis(
            compose_isolated(self._app, said, "Fleet(settings=…)"),
            self.clock,
            self._listening(),
            "test",
            self._open_store,
            replaced=self._replace,
        )
        self._pools = PoolDoubles(basis, self._own_clock)
        runtime = Runtime(
            basis, RuntimeOptions(worker="test", driven=True, pooling=self._pools, draw=lambda: _NEARLY_ONE)
        )
        await runtime.start()
        self._pools.time_out = runtime.exchange.time_out
        self._runtime = runtime
        session = await runtime.container.get(Session)
        session.enqueueing.seen = lambda job, record: self._seen.append((job, record))
        self._session = replace(session, clock=self._own_clock)
        return self

    async def __aexit__(self, *exc: object) -> None:
        runtime, self._runtime, self._session = self._running, None, None
        stopped = await runtime.stop(0)
        problems = [*runtime.problems, *(f"{name} did not stop" for name in stopped.refused)]
        problems += [f"{name} still runs in a thread" for name in runtime.exchange.running()]
        if problems and not any(exc):
            raise WorkfleetError("the fleet did not stop well: " + "; ".join(problems))

    @property
    def enqueued(self) -> Sequence[NewJob[Any]]:
        """The jobs that were enqueued, in order: what `enqueue` was given, what runs returned, and the payloads for a
        `queue_name`. A job that was there already (by its id or unique key) is not among them."""
        found: dict[str, NewJob[Any]] = {}
        for job, record in self._seen:
            if record.id not in found and self._stored.jobs.state_of(record.id) is not None:
                found[record.id] = job
        return list(found.values())

    @property
    def failed(self) -> Sequence[JobSettled]:
        """The ends of jobs that failed for good, in order."""
        return [e for e in self.events if isinstance(e, JobSettled) and e.state == JobState.FAILED.value]

    @property
    def session(self) -> Session:
        self._own_clock.owner = asyncio.current_task()
        return super().session

    async def get(self, kind: type[T]) -> T:
        """An object of the application's graph."""
        return await self._running.container.get(kind)

    def pool(self, which: type[Any] | str) -> PoolDouble:
        """The double of a `@process` class's pool, by class or name. Raises `NotFound`."""
        _ = self._running
        self._own_clock.owner = asyncio.current_task()
        return self._pools.get(which)

    async def run_until_idle(self) -> None:
        """Run what is ready until nothing is left to do, attempts after a backoff and runs that sleep included.

        The clock moves only over those waits; what falls due meanwhile happens on the way. Delayed and snoozed jobs and
        later slots are left: see `travel`. Raises TimeoutError, naming the runs, when one does not end.
        """
        while True:
            await self._settle()
            due_ms = await self._next_wait_ms()
            if due_ms is None:
                return
            await self._move_to(due_ms)

    async def travel(self, by: DurationLike | datetime) -> None:
        """Move the clock on, stopping at every due instant on the way and running until nothing is ready there.

        By a duration such as "3d", or to an aware datetime. Raises `UsageError` for a time in the past, and
        TimeoutError as `run_until_idle`.
        """
        now = self.clock.now_ms()
        target = datetime_ms(by) if isinstance(by, datetime) else now + duration_ms(by)
        if target < now:
            raise UsageError(f"travel({by!r}): it is {_instant(now)}, and the clock never goes back")
        await self._settle()
        await self._move_to(target)

    async def runs(self, schedule: str) -> Sequence[Run]:
        """The runs of a schedule, by slot. Raises `NotFound`."""
        await self.schedules.get(schedule)
        found = [job for job in await self._jobs() if job.schedule == schedule]
        found.sort(key=lambda job: (job.created_ms, job.slot_ms or 0))
        return [Run(_instant(job.slot_ms), job.outcome or job.state.value) for job in found]

    async def attempts(self, ref: JobRef[Any]) -> Sequence[Attempt]:
        """The attempts of a job, oldest first."""
        return (await ref.record()).history

    @property
    def _running(self) -> Runtime:
        if self._runtime is None:
            raise UsageError("the fleet is not running: use `async with Fleet(app) as fleet:`")
        return self._runtime

    def _listening(self) -> Bus:
        def hear(event: Event) -> None:
            self._happened += 1
            self.events.append(event)

        bus = Bus()
        bus.subscribe(hear)
        return bus

    async def _open_store(self, _url: str, *, app: str, clock: Clock, create: bool) -> MemoryStore:
        self._stored = MemoryStore(app, clock)
        self._opened = self._stored
        return self._stored

    async def _move_to(self, target_ms: int) -> None:
        while (due_ms := await self._next_due_ms()) is not None and due_ms <= target_ms:
            self.clock.move_to(due_ms)
            await self._settle()
        self.clock.move_to(target_ms)
        await self._settle()

    async def _settle(self) -> None:
        """Fire what is due and run what is ready, until nothing happens any more."""
        runtime = self._running
        self._own_clock.owner = asyncio.current_task()
        runtime.exchange.resume()
        try:
            while True:
                before = self._happened
                if runtime.composition.core.scheduler_enabled:
                    await runtime.scheduler.fire_due()
                await self._end_cancelled(runtime)
                runtime.exchange.wake()
                await self._until_still(runtime)
                await runtime.aftermath.catch_up()
                if self._happened == before:
                    return
        finally:
            runtime.exchange.pause()

    async def _end_cancelled(self, runtime: Runtime) -> None:
        """End the runs that somebody has cancelled, as a worker's canceller does."""
        claims = runtime.exchange.claims()
        marked = await self._stored.jobs.cancels(claims) if claims else []
        for claim, wanted in zip(claims, marked, strict=True):
            if wanted:
                runtime.exchange.cancel(claim)
        for _ in range(_TURNS if any(marked) else 0):
            await real_pause(0)  # else what sleeps on the clock would count as standing still

    async def _until_still(self, runtime: Runtime) -> None:
        """Until every run has ended or sleeps on the clock."""
        patience, happened = Patience(self._patience_ms), self._happened
        while not runtime.exchange.stands_still([sleeper.task for sleeper in self.clock.sleepers]):
            try:
                await patience.pause()
            except TimeoutError:
                raise TimeoutError(_NO_END.format(runs=", ".join(runtime.exchange.running()))) from None
            if self._happened != happened:
                happened = self._happened
                patience.renew()

    async def _next_wait_ms(self) -> int | None:
        """When the first wait is over of a run that sleeps or of a job between two attempts."""
        waits = [job.due_ms for job in await self._jobs(JobState.DELAYED) if job.history and job.outcome != "snoozed"]
        if self._running.exchange.active:
            waits += [sleeper.due_ms for sleeper in self.clock.sleepers]
        return self._first(waits)

    async def _next_due_ms(self) -> int | None:
        """The first instant at which something falls due: a job, a slot, or the end of somebody's sleep."""
        runtime = self._running
        due = [sleeper.due_ms for sleeper in self.clock.sleepers]
        delayed_ms = await self._stored.jobs.next_due_ms(runtime.table.queues)
        if delayed_ms is not None:
            due.append(delayed_ms)
        if runtime.composition.core.scheduler_enabled:
            live = [record for record in await self._stored.schedules.all() if is_live(record)]
            due += [time for record in live if (time := fire_time_ms(record)) is not None]
            # A fire that waits for the end of a run is tried again when its hold ends.
            late = [record for record in live if (record.next_due_ms or 0) <= self.clock.now_ms()]
            due += [record.held_until_ms for record in late if record.held_until_ms is not None]
        return self._first(due)

    def _first(self, instants: Sequence[int]) -> int | None:
        return min((at for at in instants if at > self.clock.now_ms()), default=None)

    async def _jobs(self, *states: JobState) -> list[JobRecord]:
        return await self._stored.jobs.find(JobQuery(states=states or None, limit=_ALL))


def _instant(ms: int | None) -> datetime | None:
    return None if ms is None else _EPOCH + timedelta(milliseconds=ms)


_NO_END = (
    "nothing happened for the fleet's patience in real time, and these runs have not ended: {runs}. They wait for "
    "something outside of the fleet, or in a task of their own for its clock"
)
