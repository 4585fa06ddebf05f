"""The supervisor's own conversation with the store: keeps its workers' leases, takes over what a dead one held."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Protocol

from workfleet.events import Event
from workfleet.ids import new_token
from workfleet.model.fleet import WorkerRecord
from workfleet.ports.clock import Clock
from workfleet.ports.jobs import TakeOver
from workfleet.ports.stores import Store
from workfleet.queues.recovery import recover
from workfleet.supervision.board import Board, BoardEntry
from workfleet.supervision.control import Hello, Lost
from workfleet.supervision.identity import own_identity
from workfleet.supervision.insist import insist
from workfleet.supervision.keeper import Keeper
from workfleet.supervision.lock_keeper import LockKeeper, LocksElsewhere
from workfleet.supervision.service import Service, ServiceGroup

from .crash_rows import CrashRows
from .run import Run
from .waiting import first
from .worker import WorkerProcess

_LAST_TRY_S = 2.0


class OpenStore(Protocol):
    """Opens a store by its URL. Raises StoreUnavailable or ConfigError."""

    async def __call__(self, url: str, *, app: str, clock: Clock, create: bool) -> Store: ...


class Custody:
    """A Service. It opens the store once the first worker works (which has then made it, where it did not exist)."""

    name = "custody"

    def __init__(self, run: Run, open_store: OpenStore, *, clock: Clock, publish: Callable[[Event], None]) -> None:
        self._run, self._open_store = run, open_store
        self._clock, self._publish = clock, publish
        self._id = f"supervisor-{socket.gethostname()}-{os.getpid()}"
        self._store: Store | None = None
        self._elsewhere: LocksElsewhere | None = None
        """The locks, where they are in another store."""
        self._opened = asyncio.Event()

    @property
    def store_url(self) -> str:
        """Without secrets; "" while it is not open."""
        return self._store.url if self._store else ""

    async def serve(self) -> None:
        await self._run.first_ready.wait()
        hello = self._run.hello
        assert hello is not None, "a worker says hello before it is ready"
        store = await self._open(hello)
        self._store = store
        self._opened.set()
        self._run.changed.set()
        try:
            keepers = [self._keeper(store, hello), self._lock_keeper(store, hello)]
            await ServiceGroup("keepers", keepers, clock=self._clock, publish=self._publish).serve()
        finally:
            self._opened.clear()
            self._store = None
            await store.close()

    async def release(self, worker: WorkerProcess, how: str, *, given_back: bool) -> None:
        """Take over the jobs of a worker whose process is gone, free its locks, forget its record.

        It takes as long as the store needs to answer; in a stop, as long as the budget allows.
        """
        if worker.hello is None or not worker.ready:
            return  # it had claimed nothing yet
        releasing = asyncio.create_task(self._release(worker, worker.hello, how, given_back=given_back))
        await first(None, releasing, self._run.stopping.wait())
        if not releasing.done():
            await first(max(self._run.budget_left_s, _LAST_TRY_S), releasing, self._run.killed.wait())
        if not releasing.done():
            await first(_LAST_TRY_S, releasing)
        if not releasing.done():
            releasing.cancel()
            await asyncio.gather(releasing, return_exceptions=True)
            self._run.summary.problems.append(
                f"the store did not answer: jobs that worker {worker.id} held run again when their lease is over"
            )
            return
        releasing.result()

    async def _release(self, worker: WorkerProcess, hello: Hello, how: str, *, given_back: bool) -> None:
        locks = [entry for entry in worker.board.entries() if entry.kind == "lock"]

        # Recorded as long as it holds what it takes over: killed meanwhile, it is found to be dead itself.
        record = WorkerRecord(id=f"{self._id}-{new_token()[:8]}", identity=own_identity())
        request = TakeOver(record.id, new_token(), hello.lease_ms, workers=(worker.id,))

        rows = CrashRows(self._publish)

        async def call() -> None:
            await self._opened.wait()
            store = self._store
            assert store is not None, "it is open while the event is set"
            await store.fleet.register(record)
            # First the locks, or a job that runs again at once finds its own still taken.
            await self._free(store, locks)
            await recover(
                store.jobs,
                request,
                how,
                max_crashes=hello.max_crashes,
                clock=self._clock,
                publish=rows.publish,
                given_back=given_back,
            )
            await store.fleet.forget(worker.id)
            await store.fleet.forget(record.id)

        what = f"taking over the jobs of worker {worker.id}"
        await insist(call, what, timeout_ms=hello.lease_ms, clock=self._clock, publish=self._publish)
        self._run.recovered(rows.recovered)
        if hello.ledger is not None and self._store is not None:
            await rows.write(self._store, hello.ledger, worker=record.id, clock=self._clock)

    async def _free(self, store: Store, locks: list[BoardEntry]) -> None:
        if self._elsewhere is not None:
            await self._elsewhere.free(locks)
            return
        for lock in locks:
            await store.locks.release(lock.name, lock.owner)

    async def _open(self, hello: Hello) -> Store:
        return await insist(
            lambda: self._open_store(hello.store, app=hello.app, clock=self._clock, create=False),
            "opening the store to keep leases",
            timeout_ms=hello.lease_ms,
            clock=self._clock,
            publish=self._publish,
        )

    def _keeper(self, store: Store, hello: Hello) -> Keeper:
        return Keeper(
            self._boards,
            store.jobs,
            lease_ms=hello.lease_ms,
            clock=self._clock,
            publish=self._publish,
            on_lost=self._tell_lost,
        )

    def _lock_keeper(self, store: Store, hello: Hello) -> Service:
        url = hello.locks
        if url is None:
            self._elsewhere = None
            return LockKeeper(self._boards, store.locks, clock=self._clock, publish=self._publish)
        self._elsewhere = LocksElsewhere(
            lambda: self._open_store(url, app=hello.app, clock=self._clock, create=False),
            self._boards,
            timeout_ms=hello.lease_ms,
            clock=self._clock,
            publish=self._publish,
        )
        return self._elsewhere

    def _boards(self) -> list[Board]:
        return [worker.board for worker in self._run.living()]

    def _tell_lost(self, board: Board, entry: BoardEntry) -> None:
        for worker in self._run.living():
            if worker.board is board and entry.kind == "job":
                worker.send(Lost(claim=entry.claim))
