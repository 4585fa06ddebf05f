"""Schedules on a real store with a clock that a test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from workfleet.enqueueing import Enqueueing
from workfleet.errors import StoreUnavailable
from workfleet.events import Event
from workfleet.ids import new_token
from workfleet.model.jobs import JobRecord, JobState
from workfleet.model.outcome import Outcome, Settlement
from workfleet.model.schedules import ScheduleRecord
from workfleet.model.timing import Every
from workfleet.ports.clock import Clock
from workfleet.ports.jobs import ClaimRequest, JobQuery, Want
from workfleet.ports.stores import Store
from workfleet.schedules.at_start import run_per_process
from workfleet.schedules.process_local import ProcessLocalScheduler
from workfleet.schedules.scheduler import Scheduler
from workfleet.schedules.schedules import Schedules
from workfleet.stores.open import open_store
from workfleet.testing.clock import TestClock, instant_ms

E = TypeVar("E", bound=Event)
SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
NOON = instant_ms("2027-03-27T12:00Z")


def record(name: str = "s", when: Any = None, due: int | None = NOON, **facts: Any) -> ScheduleRecord:
    """A schedule of the code, every 15 minutes unless told otherwise."""
    base: dict[str, Any] = {
        "timing": when or Every(15 * MINUTE),
        "fingerprint": "f",
        "job": JobRecord(id="", queue="shop-schedules", name=name),
        "next_due_ms": due,
    }
    return ScheduleRecord(**{"name": name, **base, **facts})


class FaultyFires:
    """A schedule store whose `fire` fails as told: "before" or "after" it has happened."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.fault: str | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def fire(self, fires: Any) -> Any:
        if self.fault == "before":
            raise StoreUnavailable("test", "it is down")
        answers = await self._store.fire(fires)
        if self.fault == "after":
            raise StoreUnavailable("test", "the reply was lost")
        return answers


class Process:
    """What one process of a fleet has: its connection, its clock, its scheduler, and what it published."""

    def __init__(self, store: Store, clock: Clock, *, enabled: bool = True) -> None:
        self.store, self.clock = store, clock
        self.events: list[Event] = []
        self.woken = 0
        self.fires = FaultyFires(store.schedules)
        self.scheduler = Scheduler(
            self.fires,  # type: ignore[arg-type]
            app="shop",
            now_ms=store.now_ms,
            poll_ms=10_000,
            clock=clock,
            publish=self.events.append,
            wake=self._wake,
        )
        self.enqueueing = Enqueueing("worker-default", clock.now_ms)
        self.schedules = Schedules(
            self._opened,
            self.enqueueing,
            clock,
            timezone="Europe/Berlin",
            enabled=enabled,
            publish=self.events.append,
        )

    async def _opened(self) -> Store:
        return self.store

    def _wake(self) -> None:
        self.woken += 1

    @classmethod
    async def on_memory(cls, now_ms: int = NOON) -> Process:
        clock = TestClock(now_ms)
        return cls(await open_store("memory://", app="shop", clock=clock, create=True), clock)

    async def start(self, records: Sequence[ScheduleRecord], *, worker: str) -> int:
        """Begin a process: `run_per_process`."""
        return await run_per_process(records, self.store.jobs, worker=worker, publish=self.events.append)

    def local(self, records: Sequence[ScheduleRecord], jobs: Any = None) -> ProcessLocalScheduler:
        """The process's own schedules; `jobs` None: in its store."""
        jobs = self.store.jobs if jobs is None else jobs
        return ProcessLocalScheduler(records, jobs, worker="w1", clock=self.clock, publish=self.events.append)

    def told(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    def at(self, now_ms: int) -> None:
        assert isinstance(self.clock, TestClock)
        self.clock.move_to(now_ms)

    async def jobs(self) -> list[JobRecord]:
        """Every job, the oldest first."""
        return (await self.store.jobs.find(JobQuery(limit=10_000)))[::-1]

    async def slots(self) -> list[int | None]:
        """The slots of the jobs in minutes after noon, in order."""
        slots = [job.slot_ms for job in await self.jobs()]
        return sorted([None if slot is None else (slot - NOON) // MINUTE for slot in slots], key=lambda slot: slot or 0)

    async def claim(self, queue: str = "shop-schedules") -> list[JobRecord]:
        return await self.store.jobs.claim(ClaimRequest("w", new_token(), 30_000, (Want(queue, 100),)))

    async def settle(self, jobs: list[JobRecord], state: JobState = JobState.COMPLETED) -> None:
        outcome = Outcome(state=state, code=state.value, attempts_made=1, delay_ms=60_000)
        settled = await self.store.jobs.settle([Settlement(job.claim, outcome) for job in jobs])
        assert all(settled.applied)

    async def run_all(self) -> None:
        """Claim and settle what is ready."""
        await self.settle(await self.claim())


async def turns(count: int = 10) -> None:
    """Let other tasks run."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(condition: Callable[[], object]) -> None:
    deadline = asyncio.get_running_loop().time() + 10
    while not condition():
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.001)
