"""`Fleet`: a whole application in one process for tests. No server, no files, no waiting: a test moves the clock.

Everything is the product's own, on the memory store: schedules fire, handlers run with injection, guards and retries.
Only pools are doubles (see `pools.py`), and nothing happens by itself between two calls of the test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Self, TypeVar

from workfleet.app.app import App
from workfleet.app.builtins import Basis
from workfleet.app.client import Client, Session
from workfleet.app.composition import compose
from workfleet.app.runtime import Runtime, RuntimeOptions
from workfleet.bus import Bus
from workfleet.enqueueing import instant_ms as datetime_ms
from workfleet.errors import NotFound, UsageError
from workfleet.events import Event, JobSettled
from workfleet.jobref import JobRef
from workfleet.model.durations import DurationLike, duration_ms
from workfleet.model.jobs import Attempt, JobRecord, JobState
from workfleet.model.jobtypes import NewJob
from workfleet.ports.stores import JobQuery, Store
from workfleet.schedules.due import fire_time_ms, is_live
from workfleet.stores.open import open_store

from .clock import TestClock, instant_ms
from .doubles import PoolDoubles
from .pools import PoolDouble

T = TypeVar("T")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PAGE = 100_000


@dataclass(frozen=True)
class Run:
    """One run of a schedule: its slot, and how it ended (or the state that it is in)."""

    slot: datetime | None
    outcome: str


class Fleet(Client):
    """`async with Fleet(app, now="2027-03-27T12:00Z", replace={Smtp: smtp}) as fleet:`, a `Client` of its own workers.

    `replace` puts objects in the place of what the application provides. Settings are read as ever, except that the
    store is in memory.
    """

    def __init__(
        self, app: App, *, now: str = "2027-01-01T00:00Z", replace: Mapping[type[Any], Any] | None = None
    ) -> None:
        super().__init__()
        self._app, self._replace = app, dict(replace or {})
        self.clock = TestClock(instant_ms(now))
        self.enqueued: list[NewJob[Any]] = []
        """Every job that was enqueued, by the test, by handlers and by schedules, in order."""
        self.events: list[Event] = []
        """Everything that happened, as events."""
        self._runtime: Runtime | None = None

    async def __aenter__(self) -> Self:
        composition = compose(self._app, cli={"store": "memory://", "heartbeat_enabled": False})
        bus = Bus()
        bus.subscribe(self.events.append)
        basis = Basis(composition, self.clock, bus, "test", open_store, replaced=self._replace)
        self._doubles = PoolDoubles(basis)
        self._runtime = Runtime(basis, RuntimeOptions(worker="test", driven=True, pooling=self._doubles))
        await self._runtime.start()
        session = await self._runtime.container.get(Session)
        session.enqueueing.seen = self.enqueued.append
        self._session = session
        return self

    async def __aexit__(self, *exc: object) -> None:
        runtime, self._runtime = self._runtime, None
        if runtime is not None:
            await runtime.stop(0)
            self._session = None

    @property
    def failed(self) -> Sequence[JobSettled]:
        """The ends of jobs that failed for good, in order."""
        return [e for e in self.events if isinstance(e, JobSettled) and e.state == JobState.FAILED.value]

    async def get(self, kind: type[T]) -> T:
        """An object of the application's graph."""
        return await self._running.container.get(kind)

    def pool(self, worker: type[Any]) -> PoolDouble:
        """The double of a `@process` class's pool. Raises `NotFound` while nothing has asked for that pool."""
        double = self._doubles.made.get(worker)
        if double is None:
            raise NotFound(f"nothing uses a pool of {worker.__qualname__} yet")
        return double

    async def run_until_idle(self) -> None:
        """Run what is due until nothing is left to do; the clock moves only over the waits between a job's attempts."""
        while True:
            await self._settle()
            due = await self._next_retry_ms()
            if due is None:
                return
            self.clock.move_to(due)

    async def travel(self, by: DurationLike | datetime) -> None:
        """Move the clock on, stopping at every due instant on the way and running until nothing is ready there."""
        target = datetime_ms(by) if isinstance(by, datetime) else self.clock.now_ms() + duration_ms(by)
        if target < self.clock.now_ms():
            raise UsageError(f"travel({by!r}): the clock never goes back")
        while True:
            await self._settle()
            due = await self._next_due_ms()
            if due is None or due > target:
                break
            self.clock.move_to(due)
        self.clock.move_to(target)
        await self._settle()

    async def runs(self, schedule: str) -> Sequence[Run]:
        """The runs of a schedule, by slot. Raises `NotFound`."""
        await self.schedules.get(schedule)
        found = [job for job in await self._jobs() if job.schedule == schedule]
        found.sort(key=lambda job: (job.slot_ms or 0, job.created_ms))
        return [Run(_instant(job.slot_ms), job.outcome or job.state.value) for job in found]

    async def attempts(self, ref: JobRef[Any]) -> Sequence[Attempt]:
        """The attempts of a job, oldest first."""
        return (await ref.record()).history

    @property
    def _running(self) -> Runtime:
        if self._runtime is None:
            raise UsageError("the fleet is not running: use `async with Fleet(app) as fleet:`")
        return self._runtime

    @property
    def _store(self) -> Store:
        return self._running.store

    async def _settle(self) -> None:
        """Fire what is due and run what is ready, until neither is left."""
        runtime = self._running
        while True:
            wait_ms = await runtime.scheduler.fire_due() if runtime.composition.core.scheduler_enabled else 1
            runtime.exchange.wake()
            while not runtime.exchange.idle:
                await self.clock.sleep(0)
            counts = await self._store.jobs.counts()
            ready = sum(c.waiting + c.prioritized for queue, c in counts.items() if queue in runtime.table.queues)
            if not ready and wait_ms > 0:
                return

    async def _next_retry_ms(self) -> int | None:
        waits = [job.due_ms for job in await self._jobs(JobState.DELAYED) if job.history]
        return min(waits, default=None)

    async def _next_due_ms(self) -> int | None:
        delayed = [job.due_ms for job in await self._jobs(JobState.DELAYED)]
        live = [record for record in await self._store.schedules.all() if is_live(record)]
        fires = [time for record in live if (time := fire_time_ms(record)) is not None]
        return min([*delayed, *fires], default=None)

    async def _jobs(self, *states: JobState) -> list[JobRecord]:
        return await self._store.jobs.find(JobQuery(states=states or None, limit=_PAGE))


def _instant(ms: int | None) -> datetime | None:
    return None if ms is None else _EPOCH + timedelta(milliseconds=ms)
