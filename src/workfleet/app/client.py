"""`Client`: enqueue jobs and steer the fleet from anywhere (an API, a script, a handler). It holds no app and runs
nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from workfleet.clock import SystemClock
from workfleet.enqueueing import Enqueueing
from workfleet.errors import ConfigError, Problem, QueueingDisabled, StoreUnavailable, UsageError
from workfleet.events import Event, JobEnqueued
from workfleet.ids import new_token
from workfleet.jobref import JobRef
from workfleet.locks.locks import Locks
from workfleet.model.jobs import Enqueued, JobRecord
from workfleet.model.jobtypes import NewJob
from workfleet.model.queue import Queue
from workfleet.observe.trace import current_trace
from workfleet.observe.trace_jobs import EnqueueSpans
from workfleet.ports.clock import Clock
from workfleet.ports.spans import OpenEnqueue
from workfleet.ports.stores import Store
from workfleet.queues.jobs import Jobs
from workfleet.queues.queues import Queues
from workfleet.schedules.schedules import Schedules
from workfleet.settings.load import load
from workfleet.settings.loaded import Loaded
from workfleet.settings.sections import TracingSettings
from workfleet.stores.open import open_store

from .locking import OpenedLocks
from .queueing import payload_limits

R = TypeVar("R")
_BATCH = 1_000


@dataclass
class Session:
    """An open store and what is needed to work with it. `store` opens on first use where it is not open yet."""

    store: Callable[[], Awaitable[Store]]
    app: str
    loaded: Loaded
    clock: Clock
    publish: Callable[[Event], None]
    enqueueing: Enqueueing
    owner: str
    trace: OpenEnqueue | None = None
    """None: enqueues are not traced."""

    @classmethod
    def of(
        cls,
        store: Callable[[], Awaitable[Store]],
        app: str,
        loaded: Loaded,
        *,
        clock: Clock,
        publish: Callable[[Event], None],
        owner: str,
        queues: Mapping[str, Queue] | None = None,
    ) -> Session:
        """A session with the enqueue options of these settings. `queues` are what the application's code says, where it
        is here."""
        limits = payload_limits(loaded.core, queues)
        enqueueing = Enqueueing(loaded.core.default_queue, clock.now_ms, limits=limits, trace=current_trace)
        traced = loaded.section("tracing", TracingSettings).enabled
        trace = EnqueueSpans(publish) if traced else None
        return cls(store, app, loaded, clock, publish, enqueueing, owner, trace)

    def schedules(self) -> Schedules:
        core = self.loaded.core
        return Schedules(
            self.store,
            self.enqueueing,
            self.clock,
            timezone=core.timezone,
            enabled=core.scheduler_enabled,
            publish=self.publish,
        )


class Client:
    """`async with Client() as client:` the same settings as the workers' decide the store.

    `store` is a URL such as "sqlite:///var/lib/shop/shop.db"; `app` is the application's name. Without them the
    settings say (`WORKER_STORE`, `WORKER_APP_NAME`), or the one store that `workfleet run` made in this project."""

    def __init__(self, store: str | None = None, *, app: str | None = None) -> None:
        """Raises `UsageError` for an App in place of its name."""
        for name, given, such in (("store", store, "sqlite:///shop.db"), ("app", app, "shop")):
            if given is not None and not isinstance(given, str):
                raise UsageError(f"Client: {name}={given!r}: it is text, such as {such!r}")
        self._wanted_store, self._wanted_app = store, app
        self._session: Session | None = None
        self._opened: Store | None = None
        self._locks: Locks | None = None
        self._own_locks: OpenedLocks | None = None

    @classmethod
    def attached(cls, session: Session, locks: Locks | None = None) -> Client:
        """A client of a store that somebody else opens and closes, with somebody else's locks where they are given."""
        client = cls()
        client._session, client._locks = session, locks
        return client

    async def __aenter__(self) -> Self:
        """Open the store. Raises `ConfigError` and `StoreUnavailable`."""
        if self._session is None:
            loaded = load(cli={"store": self._wanted_store}, app_known=False)
            app = self._wanted_app or loaded.core.app_name or _only_app(loaded.project)
            clock = SystemClock()
            # A store that nobody named is made by `workfleet run` only: a client in the wrong folder would fill a store
            # of its own, and nobody would ever run its jobs.
            named = loaded.names_store
            store = self._opened = await open_store(loaded.store_url(app), app=app, clock=clock, create=named)

            async def opened() -> Store:
                return store

            self._session = Session.of(opened, app, loaded, clock=clock, publish=_nobody_listens, owner="client")
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._own_locks is not None:
            own, self._own_locks, self._locks = self._own_locks, None, None
            await own.close()
        if self._opened is not None:
            store, self._opened, self._session = self._opened, None, None
            await store.close()

    @property
    def session(self) -> Session:
        """The open session. Raises `UsageError` before the client is entered."""
        if self._session is None:
            raise UsageError("the client is not open: use `async with Client() as client:`")
        return self._session

    async def enqueue(self, job: NewJob[R]) -> JobRef[R]:
        """Put a job on its queue. When this returns, the store has it.

        Raises `PayloadRejected`, `UsageError`, `QueueingDisabled` and `StoreUnavailable`.
        """
        (ref,) = await self.enqueue_many([job])
        return ref

    async def enqueue_many(self, jobs: Iterable[NewJob[R]]) -> list[JobRef[R]]:
        """Put many jobs on their queues, a thousand in one step. Errors as `enqueue`; the steps before are kept."""
        session, refs = self.session, list[JobRef[R]]()
        batch: list[tuple[NewJob[R], JobRecord]] = []
        for job in jobs:
            record = session.enqueueing.record(job)
            if not session.loaded.core.queue_enabled:
                raise QueueingDisabled(record.queue, record.name)
            batch.append((job, record))
            if len(batch) == _BATCH:
                refs += await self._send(batch)
                batch = []
        return refs + (await self._send(batch) if batch else [])

    async def _send(self, batch: list[tuple[NewJob[R], JobRecord]]) -> list[JobRef[R]]:
        session = self.session
        store = await session.store()
        records = [record for _, record in batch]
        span = None if session.trace is None else session.trace(records)
        if span is None:
            answers = await _enqueued(store, records)
        else:
            with span as tell:
                answers = await _enqueued(store, records)
                tell(answers)
        refs = []
        for (job, record), answer in zip(batch, answers, strict=True):
            session.publish(JobEnqueued(id=answer.id, name=record.name, queue=record.queue, created=answer.created))
            ref: JobRef[R] = JobRef(
                answer.id,
                created=answer.created,
                replaced=answer.replaced,
                jobs=store.jobs,
                clock=session.clock,
                result=job.type.result,
                queue=record.queue if answer.created else None,
            )
            refs.append(ref)
        return refs

    def ref(self, job_id: str, *, queue: str | None = None) -> JobRef[Any]:
        """A reference to a job by its id, to wait for its result. `queue`: see `Jobs`."""
        session = self.session
        if self._opened is None:
            raise UsageError("a reference by id needs a client of its own: `async with Client() as client:`")
        return JobRef(job_id, created=False, jobs=self._opened.jobs, clock=session.clock, queue=queue)

    @property
    def jobs(self) -> Jobs:
        return Jobs(self.session.store, self.session.clock)

    @property
    def queues(self) -> Queues:
        return Queues(self.session.store)

    @property
    def schedules(self) -> Schedules:
        return self.session.schedules()

    @property
    def locks(self) -> Locks:
        """Raises `ConfigError` where they are in a Redis client that only the application's code knows."""
        session = self.session
        if self._locks is None:
            self._own_locks = OpenedLocks(session, None)
            self._locks = self._own_locks.locks
        return self._locks


async def _enqueued(store: Store, records: Sequence[JobRecord]) -> list[Enqueued]:
    """Add jobs. Once more where no answer came: under the same call nothing is added twice, and what the first call
    added counts as new."""
    call = new_token()
    try:
        return await store.jobs.enqueue(records, call=call)
    except StoreUnavailable:
        return await store.jobs.enqueue(records, call=call)


def _only_app(project: Path) -> str:
    """The app whose store is the only one in the project's folder."""
    found = sorted(path.stem for path in (project / ".workfleet").glob("*.db") if not path.stem.endswith(".metrics"))
    if len(found) == 1:
        return found[0]
    there = f"{project / '.workfleet'} has {', '.join(found) or 'no store yet'}"
    raise ConfigError(
        Problem("app name", f'which application\'s store is meant? {there}. Say Client(app="…") or set WORKER_APP_NAME')
    )


def _nobody_listens(_event: Event) -> None:
    """Outside a worker there is no log to write to."""
