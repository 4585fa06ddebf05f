"""A child that is a thread of this process: the frames and the code of a child process, without its walls.

It has an object and, where there is async code, an event loop of its own. Nothing can end a thread: a killed one is
left to itself. Nobody hears it any more, another takes its place, async code in it is cancelled, and sync code runs on
until it returns; then what its object holds is released by its shutdown hooks.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import socket
import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from workfleet.pools import board, wire
from workfleet.pools.board import Board
from workfleet.pools.child import Boot
from workfleet.pools.child_calls import Calls
from workfleet.pools.child_channel import Channel, Closed
from workfleet.pools.child_engine import Engine
from workfleet.pools.child_failure import pack, trace_of
from workfleet.pools.child_target import Target, find, run_hooks
from workfleet.pools.child_trace import CallTrace
from workfleet.pools.link import Link, OnFrames
from workfleet.pools.process import Exit
from workfleet.pools.segment import Segment

LEFT: Final = Exit(-9, "left to itself, because nothing but a process can be killed", "")


class ThreadChild:
    """`build` makes the object, in the thread; None: as the boot frame says."""

    arguments: Segment | None = None  # what is large goes by the socket: it is the same memory anyway

    def __init__(self, label: str, build: Callable[[], object] | None, on_frames: OnFrames) -> None:
        self._build = build
        self._socket, theirs = socket.socketpair()
        self._board = Board(-1)  # memory of this process, without a descriptor
        self._link = Link(on_frames)
        self._exit = LEFT
        self._thread = threading.Thread(target=self._live, args=(theirs,), name=label, daemon=True)
        self.pid = os.getpid()
        self.arguments = None
        self.ended: asyncio.Future[Exit] = asyncio.get_running_loop().create_task(self._end())

    async def open(self) -> None:
        await self._link.open(self._socket)
        self._thread.start()

    def send(self, pieces: list[bytes]) -> None:
        self._link.send(pieces)

    def catch_up(self) -> None:
        """It says everything aloud."""

    def kill(self) -> None:
        self._link.close()

    def begun(self) -> int:
        return self._board.begun()

    def phase(self) -> str:
        return self._board.phase()

    def halt(self) -> None:
        self._board.halt()

    def beats(self) -> int:
        return self._board.beats()

    def dump(self) -> None:
        faulthandler.dump_traceback()

    def look(self) -> None:
        """A thread ends with a word: its socket is closed."""

    async def _end(self) -> Exit:
        try:
            await self._link.closed
        finally:
            self._link.close()
        return self._exit

    # What follows runs in the thread.

    def _live(self, sock: socket.socket) -> None:
        channel, engine = Channel(sock), Engine(self._board.beat)
        failed: BaseException | None = None
        target: Target | None = None
        try:
            boot = Boot(*wire.decode(channel.next()[-1]))
            target, trace = self._make(boot, channel, engine), CallTrace(boot.trace, boot.traced_as)
            Calls(target, channel, self._board, engine, trace, orphaned=_Orphaned(engine, sock.fileno())).serve()
        except Closed:
            pass
        except BaseException as error:  # noqa: BLE001 - the boundary around user code: what cannot be built says why and ends
            failed = error
        closing: list[Callable[[], None]] = [engine.close]
        if target is not None:
            closing.insert(0, partial(run_hooks, target, "shutdown", engine.settle))
        for close in closing:
            try:
                close()
            except BaseException as error:  # noqa: BLE001 - as above
                failed = failed or error
        self._exit = _exit(failed)
        sock.close()

    def _make(self, boot: Boot, channel: Channel, engine: Engine) -> Target:
        try:
            build = self._build or from_boot(boot)
            self._board.enter(board.BUILDING)
            target = Target(engine.enter(engine.settle(build())))
            self._board.enter(board.STARTING)
            run_hooks(target, "start", engine.settle)
        except Closed:
            raise
        except BaseException as error:
            channel.send(wire.UNFIT, 0, pack(error))
            raise
        self._board.enter(board.READY)
        channel.send(wire.READY, 0, wire.encode(target.kinds))
        return target


def from_boot(boot: Boot) -> Callable[[], object]:
    """What makes a child's object where nobody hands it over: the factory that a process would call."""
    return lambda: find(boot.factory)(*wire.decode(boot.args))


class _Orphaned:
    """What async code in a thread does when nobody hears it any more: it is cancelled."""

    def __init__(self, engine: Engine, fd: int) -> None:
        self._engine, self._fd = engine, fd

    def __call__(self, cancel: Callable[[], None]) -> None:
        self._engine.ignore(self._fd)  # a closed socket is readable for ever
        cancel()


def _exit(failed: BaseException | None) -> Exit:
    if failed is None:
        return Exit(0, "ended", "")
    return Exit(1, f"ended by {type(failed).__qualname__}", trace_of(failed))
