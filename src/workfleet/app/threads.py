"""The threads that synchronous handlers run in. It knows nothing of jobs.

There is a thread for everything that runs at a time, so that nothing waits behind a run that was abandoned; how much
that is, is decided elsewhere. The threads are daemons: one that never ends does not keep the process from ending (those
of `concurrent.futures` would)."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any

from workfleet.supervision.forks import end_stray_child


@dataclass(frozen=True)
class _Work:
    """A function to call, and who waits for what comes of it."""

    call: Callable[[], object]
    loop: asyncio.AbstractEventLoop
    ended: asyncio.Future[_Came]


@dataclass(frozen=True)
class _Came:
    """What a call came to. An exception is a value here, because a future refuses `StopIteration`."""

    value: object = None
    error: BaseException | None = None


_Inbox = SimpleQueue[_Work | None]


class ThreadsClosed(RuntimeError):
    """Nobody waits any more for what a thread will come to."""


class HandlerThreads:
    """Threads are started when they are needed and kept for the next run. For one event loop."""

    def __init__(self) -> None:
        self._idle: list[_Inbox] = []
        self._running: dict[asyncio.Future[_Came], _Inbox] = {}
        self._started = 0
        self._closed = False

    async def run(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> object:
        """Run a function in a thread, with the caller's context variables.

        A cancellation cannot end it: it is passed on only when the function has ended. A second one passes at once.
        Raises `ThreadsClosed` when the threads are shut down meanwhile."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[_Came] = loop.create_future()
        inbox = self._running[ended] = self._idle.pop() if self._idle else self._start()
        context = contextvars.copy_context()
        inbox.put(_Work(partial(context.run, fn, *args, **kwargs), loop, ended))
        ended.add_done_callback(self._free)
        try:
            await asyncio.wait({ended})
        except asyncio.CancelledError:
            await asyncio.wait({ended})
            raise
        came = ended.result()
        if came.error is not None:
            raise came.error
        return came.value

    def shutdown(self) -> None:
        """End the threads: those that are idle now, those that run when their function ends. Nobody waits for it."""
        self._closed = True
        for inbox in self._idle:
            inbox.put(None)
        self._idle.clear()
        for ended in list(self._running):
            _tell(ended, _Came(error=ThreadsClosed("the process stops; the thread is left to itself")))

    def _free(self, ended: asyncio.Future[_Came]) -> None:
        inbox = self._running.pop(ended)
        if self._closed:
            inbox.put(None)
        else:
            self._idle.append(inbox)

    def _start(self) -> _Inbox:
        inbox: _Inbox = SimpleQueue()
        self._started += 1
        name = f"workfleet-handler-{self._started}"
        threading.Thread(target=_serve, args=(inbox,), name=name, daemon=True).start()
        return inbox


def _serve(inbox: _Inbox) -> None:
    own = os.getpid()
    while (work := inbox.get()) is not None:
        came = _called(work.call)
        if os.getpid() != own:
            end_stray_child()
        try:
            work.loop.call_soon_threadsafe(_tell, work.ended, came)
        except RuntimeError:
            return  # the loop has ended before us: nobody is left to tell
        del work, came  # until the next run nothing of this one is kept alive


def _called(call: Callable[[], object]) -> _Came:
    try:
        return _Came(value=call())
    except BaseException as error:  # noqa: BLE001 - the boundary around user code in a thread: carried over to whoever waits
        return _Came(error=error)


def _tell(ended: asyncio.Future[_Came], came: _Came) -> None:
    if not ended.done():
        ended.set_result(came)
