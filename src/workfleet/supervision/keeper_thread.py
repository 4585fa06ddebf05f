"""Keepers for a process without a supervisor: they renew from a thread with an event loop and a store of its own.

Code that blocks the process's event loop does not stop it. What it gives up against a supervisor: code that holds the
interpreter lock (a C extension that never releases it) stops the thread too, and when that lasts longer than the lease,
the job is taken over and run again elsewhere; and a process that dies has nobody who takes its jobs over at once.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

from ..events import Event
from ..ports.clock import Clock
from ..ports.stores import Store
from .board import Board, BoardEntry
from .insist import insist
from .keeper import Keeper, OnLost
from .lock_keeper import LockKeeper, LocksElsewhere
from .service import Service, ServiceGroup


class KeeperThread:
    """A Service. `open_store` is called in the thread and gives it its own connection, which the thread closes.

    `publish` and `on_lost` are called in the event loop that serves, never in the thread.
    """

    name = "keeper"

    def __init__(
        self,
        open_store: Callable[[], Awaitable[Store]],
        board: Board,
        *,
        lease_ms: int,
        clock: Clock,
        publish: Callable[[Event], None],
        on_lost: OnLost,
        open_locks: Callable[[], Awaitable[Store]] | None = None,
    ) -> None:
        """`open_locks` opens the store of the locks, where that is another one."""
        self._open_store, self._board, self._open_locks = open_store, board, open_locks
        self._lease_ms, self._clock = lease_ms, clock
        self._publish, self._on_lost = publish, on_lost

    async def serve(self) -> None:
        outer = asyncio.get_running_loop()
        ended: asyncio.Future[None] = outer.create_future()
        inner, stop = asyncio.new_event_loop(), asyncio.Event()

        def run() -> None:
            failure: BaseException | None = None
            try:
                with asyncio.Runner(loop_factory=lambda: inner) as runner:
                    runner.run(self._until(stop, outer))
            except BaseException as error:  # noqa: BLE001 - carried over to `serve`, which raises it
                failure = error
            _soon(outer, _resolve, ended, failure)

        thread = threading.Thread(target=run, name="workfleet-keeper", daemon=True)
        thread.start()
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            _soon(inner, stop.set)
            await asyncio.shield(ended)
            raise
        finally:
            if ended.done():
                thread.join()  # it has nothing left to do but to return

    async def _until(self, stop: asyncio.Event, outer: asyncio.AbstractEventLoop) -> None:
        keeping, stopping = asyncio.create_task(self._keep(outer)), asyncio.create_task(stop.wait())
        await asyncio.wait({keeping, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in (keeping, stopping):
            task.cancel()
        results = await asyncio.gather(keeping, stopping, return_exceptions=True)
        if isinstance(results[0], Exception):
            raise results[0]

    async def _keep(self, outer: asyncio.AbstractEventLoop) -> None:
        def publish(event: Event) -> None:
            _soon(outer, self._publish, event)

        def on_lost(board: Board, entry: BoardEntry) -> None:
            _soon(outer, self._on_lost, board, entry)

        what = "opening the store to renew leases"
        store = await insist(self._open_store, what, timeout_ms=self._lease_ms, clock=self._clock, publish=publish)
        try:
            keeper = Keeper(
                self._boards,
                store.jobs,
                lease_ms=self._lease_ms,
                clock=self._clock,
                publish=publish,
                on_lost=on_lost,
            )
            both = [keeper, self._lock_keeper(store, publish)]
            await ServiceGroup("keepers", both, clock=self._clock, publish=publish).serve()
        finally:
            await store.close()

    def _lock_keeper(self, store: Store, publish: Callable[[Event], None]) -> Service:
        if self._open_locks is None:
            return LockKeeper(self._boards, store.locks, clock=self._clock, publish=publish)
        return LocksElsewhere(
            self._open_locks, self._boards, timeout_ms=self._lease_ms, clock=self._clock, publish=publish
        )

    def _boards(self) -> tuple[Board]:
        return (self._board,)


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *arguments: object) -> None:
    try:
        loop.call_soon_threadsafe(call, *arguments)
    except RuntimeError:
        pass  # that loop has ended: nobody is left who wants to know


def _resolve(future: asyncio.Future[None], failure: BaseException | None) -> None:
    if future.done():
        return
    if failure is None:
        future.set_result(None)
    else:
        future.set_exception(failure)
