"""The event loop of a process that we own: uvloop where it installs, else the standard one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_loop(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end in a new loop. `main` is called inside it."""

    async def run() -> T:
        return await main()

    with asyncio.Runner(loop_factory=_factory()) as runner:
        return runner.run(run())


def _factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # no uvloop on this platform: the standard loop does the same, slower
        return None
    return uvloop.new_event_loop
