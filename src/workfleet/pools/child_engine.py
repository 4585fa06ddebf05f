"""The child's asyncio loop, made when the first async code appears. It runs on the main thread, between sync calls.

Sync methods run while the loop stands still, so they may use `asyncio.run()` themselves; tasks that async code leaves
behind go on while the child waits for its next call. Knows nothing of calls.
asyncio is imported when it is needed: it would double the time in which a child of sync code is replaced.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import asyncio


_BEAT: Final = 0.25
"""Seconds between two signs of life of a loop that runs a call."""


class Engine:
    """Runs awaitables from sync code, and holds one async context open for the life of the child.

    While a call runs on the loop, `beat` is called again and again as long as the loop is not blocked.
    """

    def __init__(self, beat: Callable[[], None] = lambda: None) -> None:
        self._beat = beat
        self._attends = False
        self._beating = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leave: Callable[[], None] = lambda: None

    @property
    def started(self) -> bool:
        return self._loop is not None

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            import asyncio

            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        return self._loop

    def run(self, awaitable: Awaitable[Any]) -> Any:
        return self._running().run_until_complete(_await(awaitable))

    def settle(self, value: Any) -> Any:
        """The value, or what it comes to where it is awaitable."""
        return self.run(value) if inspect.isawaitable(value) else value

    def run_watching(self, awaitable: Awaitable[Any], fd: int, readable: Callable[[Callable[[], None]], None]) -> Any:
        """Runs it while `readable(cancel)` is called whenever `fd` has something to read, and once before."""
        loop = self._running()
        task = loop.create_task(_await(awaitable))

        def cancel() -> None:
            task.cancel()

        loop.add_reader(fd, readable, cancel)
        self._attends = True
        if not self._beating:
            self._go_on_beating()
        try:
            readable(cancel)
            return loop.run_until_complete(task)
        finally:
            self._attends = False
            loop.remove_reader(fd)
            if inspect.iscoroutine(awaitable):
                awaitable.close()  # cancelled before it began, it would be warned of as never awaited

    def _go_on_beating(self) -> None:
        # It stops by itself some time after the call: starting and stopping it would cost each quick call.
        self._beating = self._attends
        if self._attends:
            self._beat()
            self._running().call_later(_BEAT, self._go_on_beating)

    def ignore(self, fd: int) -> None:
        """Watches it no more."""
        self._running().remove_reader(fd)

    def wait_readable(self, fd: int) -> None:
        """Lets the loop run until `fd` has something to read."""
        loop = self._running()
        there = loop.create_future()

        def tell() -> None:
            if not there.done():
                there.set_result(None)

        loop.add_reader(fd, tell)
        try:
            loop.run_until_complete(there)
        finally:
            loop.remove_reader(fd)

    def enter(self, made: object) -> object:
        """Enters `made` where it is a context manager; what it gives is held until `close`."""
        if isinstance(made, AbstractAsyncContextManager):
            return self._enter_async(made)
        if isinstance(made, AbstractContextManager):
            entered = made.__enter__()
            self._leave = lambda: _exit(made)
            return made if entered is None else entered
        return made

    def _enter_async(self, made: AbstractAsyncContextManager[Any]) -> object:
        import asyncio

        loop = self._running()
        entered, leaving = loop.create_future(), asyncio.Event()

        async def hold() -> None:  # one task enters and leaves: cancel scopes and task groups demand it
            async with made as thing:
                entered.set_result(made if thing is None else thing)
                await leaving.wait()

        holding = loop.create_task(hold())
        loop.run_until_complete(asyncio.wait({holding, entered}, return_when=asyncio.FIRST_COMPLETED))
        if not entered.done():
            holding.result()

        def leave() -> None:
            leaving.set()
            loop.run_until_complete(holding)

        self._leave = leave
        return entered.result()

    def close(self) -> None:
        """Leaves what was entered, then ends what is left of the loop."""
        try:
            self._leave()
        finally:
            if self._loop is not None:
                self._end(self._loop)

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        import asyncio

        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _await(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _exit(made: AbstractContextManager[Any]) -> None:
    made.__exit__(None, None, None)
