"""`app.run()`: a worker in the user's own process, without a supervisor. Leases are renewed from a thread."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from contextlib import suppress
from functools import partial

from workfleet.bus import Bus
from workfleet.clock import SystemClock
from workfleet.errors import ConfigError, Problem
from workfleet.ids import new_token
from workfleet.model.fleet import Instruction
from workfleet.observe.logs.subscriber import LogSubscriber
from workfleet.ports.stores import Store
from workfleet.settings.sections import LockSettings, LogSettings
from workfleet.stores.open import MEMORY, open_store
from workfleet.supervision.board import Board, BoardEntry
from workfleet.supervision.forks import StrayForks
from workfleet.supervision.keeper_thread import KeeperThread
from workfleet.supervision.service import Service

from .app import App
from .builtins import Basis
from .composition import Composition, compose
from .idle import IdleWatch
from .log_options import check_files
from .logs import ProcessLogs, own_destinations
from .policies import milliseconds
from .runtime import Runtime
from .runtime_options import RuntimeOptions

_SLOTS = 4_096


async def run_here(app: App, *, until_idle: bool) -> None:
    """Run until a signal, a cancellation, an operator's instruction or, with `until_idle`, until nothing is left."""
    clock, bus = SystemClock(), Bus()
    composition = compose(app)
    _check_memory(composition)
    logs, own = ProcessLogs(), own_destinations(composition.modules)
    check_files(composition.loaded)
    logs.configure(composition.loaded.section("log", LogSettings), own)
    bus.subscribe(LogSubscriber())
    # No thread can reach a store in memory: the worker renews there what it holds itself.
    board = None if composition.store_url == MEMORY else Board.create(slots=_SLOTS, clock=clock)
    worker = f"{socket.gethostname()}-{os.getpid()}-0-{new_token()[:8]}"
    basis = Basis(composition, clock, bus, worker, open_store, board)

    stop = asyncio.Event()

    def keeper(runtime: Runtime) -> list[Service]:
        return [] if board is None else [_keeper_of(runtime, board)]

    def told(instruction: Instruction | None) -> None:
        if instruction in ("stop", "recycle"):  # nobody is here to start it anew
            stop.set()

    options = RuntimeOptions(
        worker=worker,
        configure_logs=partial(logs.configure, own=own),
        extra_services=keeper,
        on_instruction=told,
    )
    runtime = Runtime(basis, options)
    try:
        with StrayForks():
            await runtime.start()
            await _until_told(runtime, stop, until_idle=until_idle)
    finally:
        if board is not None:
            board.close()
        logs.close()


async def _until_told(runtime: Runtime, stop: asyncio.Event, *, until_idle: bool) -> None:
    with _signals(stop):
        if until_idle:
            IdleWatch(runtime).start(stop.set)
        try:
            await stop.wait()
        finally:
            await runtime.stop(milliseconds(runtime.composition.core.shutdown_timeout))


def _check_memory(composition: Composition) -> None:
    """A store in memory holds its locks itself: nobody may think that they are somewhere else. Raises `ConfigError`."""
    client = composition.loaded.section("lock", LockSettings).client
    if client is not None and composition.store_url == MEMORY:
        message = "a store in memory holds its locks itself: leave the client out, or name a store in WORKER_STORE"
        raise ConfigError(Problem("lock.client", message, client))


def _keeper_of(runtime: Runtime, board: Board) -> KeeperThread:
    composition, clock = runtime.composition, runtime.clock
    locks_url = composition.locks_url

    async def own_store() -> Store:
        return await open_store(composition.store_url, app=composition.app.name, clock=clock, create=False)

    async def own_locks() -> Store:
        assert locks_url is not None
        return await open_store(locks_url, app=composition.app.name, clock=clock, create=False)

    def lost(_board: Board, entry: BoardEntry) -> None:
        if entry.kind == "job":
            runtime.exchange.lose(entry.claim)

    lease_ms = milliseconds(composition.core.lease)
    return KeeperThread(
        own_store,
        board,
        lease_ms=lease_ms,
        clock=clock,
        publish=runtime.bus.publish,
        on_lost=lost,
        open_locks=None if locks_url is None else own_locks,
    )


class _signals:  # noqa: N801 - used as a statement
    """SIGTERM and SIGINT drain while the body runs; a second one ends the process at once."""

    def __init__(self, stop: asyncio.Event) -> None:
        self._stop = stop
        self._installed: list[int] = []

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            # Only the main thread may handle signals; elsewhere whoever cancels us ends the run.
            with suppress(ValueError, NotImplementedError, RuntimeError):
                loop.add_signal_handler(number, self._hear)
                self._installed.append(number)

    def __exit__(self, *exc: object) -> None:
        loop = asyncio.get_running_loop()
        for number in self._installed:
            loop.remove_signal_handler(number)

    def _hear(self) -> None:
        if self._stop.is_set():
            os._exit(130)
        self._stop.set()
