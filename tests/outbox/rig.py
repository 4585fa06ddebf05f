"""A relay between a real database and a real store, and what it told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.outbox.database import APP, Database
from workfleet import JobType
from workfleet.clock import SystemClock
from workfleet.errors import OutboxUnavailable, StoreUnavailable
from workfleet.events import Event
from workfleet.model.jobs import Enqueued, JobRecord
from workfleet.outbox.relay import Relay
from workfleet.outbox.rows import Row
from workfleet.outbox.source import Refusal, Source
from workfleet.ports.jobs import JobQuery
from workfleet.ports.stores import Store
from workfleet.stores.open import open_store

E = TypeVar("E", bound=Event)
COUNT = JobType("count", int, int, queue="numbers")
ANYWHERE = JobType("anywhere", int)


class Rig:
    """`jobs` and `source` may be doubled: they stand between the relay and the real ones."""

    def __init__(self, store: Store, source: Source, *, batch: int = 100, poll_ms: int = 20) -> None:
        self.store = store
        self.events: list[Event] = []
        self.jobs = ShakyJobs(store)
        self.source = ShakySource(source)
        self.relay = Relay(
            self.source,
            self.jobs,  # type: ignore[arg-type]
            default_queue="the-default",
            poll_ms=poll_ms,
            batch=batch,
            clock=SystemClock(),
            publish=self.events.append,
        )

    def told(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    async def stored(self) -> list[JobRecord]:
        """Every job in the order of its enqueue."""
        return (await self.store.jobs.find(JobQuery(limit=100_000)))[::-1]

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.relay.serve())
        try:
            yield
            assert not task.done()
        finally:
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()


class ShakyJobs:
    """The store's `enqueue`, which can fail before or after it has done its work."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.calls: list[str | None] = []
        self.down = False
        self.reply_lost = 0

    async def enqueue(self, jobs: Sequence[JobRecord], *, call: str | None = None) -> list[Enqueued]:
        self.calls.append(call)
        if self.down:
            raise StoreUnavailable("of the test", "it is down")
        answers = await self._store.jobs.enqueue(jobs, call=call)
        if self.reply_lost:
            self.reply_lost -= 1
            raise StoreUnavailable("of the test", "the reply was lost")
        return answers


class ShakySource:
    """A source whose `finish` can fail before it has done anything."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.finish_fails = 0
        self.failures = self.looks = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    @property
    def shown(self) -> str:
        return self._source.shown

    async def take(self, limit: int) -> list[Row]:
        self.looks += 1
        return await self._source.take(limit)

    async def finish(self, moved: Sequence[Row], refused: Sequence[Refusal]) -> None:
        if self.finish_fails:
            self.finish_fails -= 1
            self.failures += 1
            await self._source.close()
            raise OutboxUnavailable(self.shown, "it went away")
        await self._source.finish(moved, refused)


@asynccontextmanager
async def opened(folder: Path, database: Database, *, app: str = APP, **options: Any) -> AsyncIterator[Rig]:
    store = await open_store(f"sqlite:///{folder / 'store.db'}", app=app, clock=SystemClock(), create=True)
    source = database.source(app)
    try:
        yield Rig(store, source, **options)
    finally:
        await source.close()
        await store.close()


async def until(condition: Callable[[], object], patience_s: float = 20.0) -> None:
    deadline = asyncio.get_running_loop().time() + patience_s
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "it did not happen"
        await asyncio.sleep(0.005)
