"""What the store says of a fleet, for its metrics: few reads, each of one answer, however many jobs there are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from workfleet.errors import StoreUnavailable
from workfleet.model.jobs import JobCounts, JobState
from workfleet.model.schedules import ScheduleRecord
from workfleet.ports.clock import Clock
from workfleet.ports.metrics import FleetFacts, QueueFacts, ScheduleFacts
from workfleet.ports.stores import Store
from workfleet.schedules.overdue import overdue_ms
from workfleet.settings.sections import MetricsCollection

from .queue_counts import QueueCounts

MOST_SCHEDULES = 1_000
"""More are not looked at: each has three series, and each of them is read."""
_LIVES_MS = 60_000
"""A worker that was seen last so long before the others is not counted."""
_STATES = {state.value: state.value.replace("-", "_") for state in JobState}


class FleetFactsReader:
    """A `FleetReader`, which asks the store two things a time, so that an idle worker sends few commands: how many jobs
    there are, and at every other time for the schedules, else for one of what changes seldom. The first time, and after
    an outage, it asks for everything."""

    def __init__(
        self, store: Store, collection: MetricsCollection, clock: Clock, counts: QueueCounts | None = None
    ) -> None:
        """`counts` shares what it reads of the queues with others."""
        self._store, self._collection, self._clock = store, collection, clock
        self._counts = counts or QueueCounts(self._opened, clock)
        self._looks = 0
        self._ahead_ms = 0.0
        """How far the store's clock is ahead of this process's monotonic one."""
        self._paused: frozenset[str] = frozenset()
        self._workers: int | None = None
        self._schedules: tuple[ScheduleFacts, ...] = ()
        self._locks_held: int | None = None
        self._seldom: list[Callable[[], Awaitable[None]]] = [self._read_time]
        if collection.queues:
            self._seldom += [self._read_queues, self._read_workers]
        if collection.locks:
            self._seldom.append(self._read_locks)

    async def read(self) -> FleetFacts:
        """Raises `StoreUnavailable`."""
        try:
            return await self._facts()
        except StoreUnavailable:
            self._looks = 0
            raise

    async def _facts(self) -> FleetFacts:
        seldom, number = self._seldom, self._looks
        for read in seldom if number == 0 else [seldom[number // 2 % len(seldom)]] if number % 2 else []:
            await read()
        counts = await self._counts.read() if self._collection.queues else {}
        now_ms = round(self._clock.monotonic() * 1000 + self._ahead_ms)
        if self._collection.schedules and number % 2 == 0:
            await self._read_schedules(now_ms)
        self._looks += 1
        return FleetFacts(
            queues=tuple(self._queue(name, found, now_ms) for name, found in counts.items()),
            workers=self._workers,
            schedules=self._schedules,
            locks_held=self._locks_held,
        )

    async def _opened(self) -> Store:
        return self._store

    async def _read_time(self) -> None:
        self._ahead_ms = await self._store.now_ms() - self._clock.monotonic() * 1000

    async def _read_queues(self) -> None:
        records = await self._store.queues.all()
        self._paused = frozenset(name for name, record in records.items() if record.paused)

    async def _read_workers(self) -> None:
        seen = [worker.seen_ms for worker in await self._store.fleet.workers()]
        # The newest sign of life may be this worker's own.
        self._workers = sum(max(seen) - seen_ms < _LIVES_MS for seen_ms in seen)

    async def _read_locks(self) -> None:
        self._locks_held = len(await self._store.locks.held())

    async def _read_schedules(self, now_ms: int) -> None:
        found: dict[str, ScheduleFacts] = {}
        after = ""
        while len(found) < MOST_SCHEDULES:
            page, after = await self._store.schedules.page(after, MOST_SCHEDULES)
            for record in page:
                # What is switched off, or no code defines any more, is nothing that an operator waits for.
                if record.enabled and not record.orphaned and len(found) < MOST_SCHEDULES:
                    found[record.name] = _facts(record, now_ms)
            if not after:
                break
        self._schedules = tuple(found.values())

    def _queue(self, name: str, counts: JobCounts, now_ms: int) -> QueueFacts:
        return QueueFacts(
            name=name,
            jobs={state: getattr(counts, field) for state, field in _STATES.items()},
            oldest_age_ms=_age_ms(counts, now_ms),
            paused=name in self._paused,
        )


def _age_ms(counts: JobCounts, now_ms: int) -> int:
    return 0 if counts.oldest_ready_ms is None else max(now_ms - counts.oldest_ready_ms, 0)


def _facts(record: ScheduleRecord, now_ms: int) -> ScheduleFacts:
    return ScheduleFacts(
        name=record.name,
        overdue_ms=overdue_ms(record, now_ms),
        last_fired_ms=record.last_fired_ms,
        next_slot_ms=record.next_due_ms,
    )
