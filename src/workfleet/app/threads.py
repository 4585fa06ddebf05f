"""The threads that synchronous handlers run in: as many as jobs can run at a time, so that none waits for another."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any


class HandlerThreads:
    """Started when they are first needed. A thread that never ends does not keep the process from ending."""

    def __init__(self) -> None:
        self._size = 1
        self._executor: ThreadPoolExecutor | None = None

    def resize(self, size: int) -> None:
        """How many threads there may be. Only before the first run."""
        self._size = max(size, 1)

    async def run(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> object:
        """Run a function in a thread, with the caller's context variables."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._size, thread_name_prefix="workfleet-handler")
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, partial(context.run, fn, *args, **kwargs))

    def shutdown(self) -> None:
        """Start no more; threads that run go on."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
