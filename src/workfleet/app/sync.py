"""The one bridge from synchronous code (Django, Flask, scripts): a client on a loop of its own thread."""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # noqa: F401 - first: its own fork hook must not hold its lock when ours closes a store
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from workfleet.errors import UsageError
from workfleet.jobref import JobRef
from workfleet.model.jobtypes import NewJob

from .client import Client

R = TypeVar("R")
T = TypeVar("T")

_FORK_WAIT_S = 5.0


@dataclass(frozen=True)
class _Open:
    """An open client, and the loop and the thread that it lives in."""

    client: Client
    loop: asyncio.AbstractEventLoop
    thread: threading.Thread

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def end(self) -> None:
        self.run(self.loop.shutdown_default_executor())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


class SyncClient:
    """Enqueue from synchronous code. It opens on first use, and again after a fork in parent and child.

    `jobs.enqueue(...)` for one job, `jobs.run(lambda client: ...)` for anything that `Client` can do. Any thread may
    use it."""

    def __init__(self, store: str | None = None, *, app: str | None = None) -> None:
        self._make: Callable[[], Client] = lambda: Client(store, app=app)
        self._opened: _Open | None = None
        self._using = 0
        self._change = threading.Condition()
        _at_fork(self)

    def enqueue(self, job: NewJob[R]) -> JobRef[R]:
        """Put a job on its queue. Errors as `Client.enqueue`."""
        return self.run(lambda client: client.enqueue(job))

    def run(self, use: Callable[[Client], Coroutine[Any, Any, T]], /) -> T:
        """Run a coroutine with the client and wait for it. Raises `UsageError` inside a running event loop, which it
        would block."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            with self._used() as opened:
                return opened.run(use(opened.client))
        raise UsageError("SyncClient would block this event loop: use `Client` and await it")

    def close(self) -> None:
        """Close the store and end the thread. The next use opens anew."""
        with self._change:
            self._close()

    @contextmanager
    def _used(self) -> Iterator[_Open]:
        with self._change:
            opened = self._opened = self._opened or self._open()
            self._using += 1
        try:
            yield opened
        finally:
            with self._change:
                self._using -= 1
                self._change.notify_all()

    def _open(self) -> _Open:
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="workfleet-client", daemon=True)
        thread.start()
        opened = _Open(self._make(), loop, thread)
        try:
            opened.run(opened.client.__aenter__())
        except BaseException:
            opened.end()
            raise
        return opened

    def _close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            try:
                opened.run(opened.client.__aexit__(None, None, None))
            finally:
                opened.end()

    def before_fork(self) -> None:
        """A connection must not be carried into a child: SQLite's locks belong to the process, and both would think to
        hold them. Whoever uses it now may end first, for a while."""
        self._change.acquire()
        self._change.wait_for(lambda: not self._using, timeout=_FORK_WAIT_S)
        self._close()

    def after_fork(self) -> None:
        """In the parent: go on."""
        self._change.release()

    def after_fork_in_child(self) -> None:
        """The parent's other threads are not here."""
        self._change, self._using = threading.Condition(), 0


def _at_fork(client: SyncClient) -> None:
    there = weakref.ref(client)

    def call(method: Callable[[SyncClient], None]) -> Callable[[], None]:
        def hook() -> None:
            known = there()
            if known is not None:
                method(known)

        return hook

    os.register_at_fork(
        before=call(SyncClient.before_fork),
        after_in_parent=call(SyncClient.after_fork),
        after_in_child=call(SyncClient.after_fork_in_child),
    )
