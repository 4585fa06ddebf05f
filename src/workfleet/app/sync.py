"""The one bridge from synchronous code (Django, Flask, scripts): a client on a loop of its own thread."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from workfleet.errors import UsageError
from workfleet.jobref import JobRef
from workfleet.model.jobtypes import NewJob

from .client import Client

R = TypeVar("R")
T = TypeVar("T")


class SyncClient:
    """Enqueue from synchronous code. It opens on first use, once per process, again after a fork.

    `jobs.enqueue(...)` for one job, `jobs.run(lambda client: ...)` for anything that `Client` can do.
    """

    def __init__(self, store: str | None = None, *, app: str | None = None) -> None:
        self._make: Callable[[], Client] = lambda: Client(store, app=app)
        self._lock = threading.Lock()
        self._pid = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: Client | None = None

    def enqueue(self, job: NewJob[R]) -> JobRef[R]:
        """Put a job on its queue. Errors as `Client.enqueue`."""
        return self.run(lambda client: client.enqueue(job))

    def run(self, use: Callable[[Client], Coroutine[Any, Any, T]], /) -> T:
        """Run a coroutine with the client and wait for it. Raises `UsageError` inside a running event loop, which
        it would
        block."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            client, loop = self._open()
            return asyncio.run_coroutine_threadsafe(use(client), loop).result()
        raise UsageError("SyncClient would block this event loop: use `Client` and await it")

    def close(self) -> None:
        """Close the store and end the thread. The next use opens anew."""
        with self._lock:
            client, loop, pid = self._client, self._loop, self._pid
            self._client = self._loop = None
            self._pid = 0
        if client is None or loop is None or pid != os.getpid():
            return
        asyncio.run_coroutine_threadsafe(client.__aexit__(None, None, None), loop).result()
        loop.call_soon_threadsafe(loop.stop)

    def _open(self) -> tuple[Client, asyncio.AbstractEventLoop]:
        with self._lock:
            # After a fork the thread is gone and the connection belongs to the parent: both are left alone.
            if self._client is None or self._loop is None or self._pid != os.getpid():
                loop = asyncio.new_event_loop()
                threading.Thread(target=loop.run_forever, name="workfleet-client", daemon=True).start()
                client = self._make()
                asyncio.run_coroutine_threadsafe(client.__aenter__(), loop).result()
                self._client, self._loop, self._pid = client, loop, os.getpid()
            return self._client, self._loop
