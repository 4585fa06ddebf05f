"""Runs a supervisor to its end, and tells what it did."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

from ..app.supervisor.options import Summary, SupervisorOptions
from ..app.supervisor.supervisor import Supervisor
from ..bus import Bus
from ..clock import SystemClock
from ..errors import WorkfleetError
from ..observe.logs.subscriber import LogSubscriber
from ..observe.logs.writers import on_standard_error
from ..ports.clock import Clock
from ..ports.stores import Store
from ..stores.open import open_store
from ..supervision.control import Hello
from .failures import tell, without_traceback
from .summary import failed_since, write_summary

FOLLOWS = "WORKFLEET_FOLLOWS"
"""The process (`workfleet dev`) with which this one ends: its pid."""

_LOOK_S = 0.5
_PATIENCE_S = 1.0


@dataclass
class _Seen:
    """The store as the supervisor opened it: only the workers know the application, and with it the store's place."""

    url: str = ""
    app: str = ""

    async def open(self, url: str, *, app: str, clock: Clock, create: bool) -> Store:
        store = await open_store(url, app=app, clock=clock, create=create)
        self.url, self.app = url, app
        return store


async def supervise(options: SupervisorOptions, on_hello: Callable[[Hello], None] | None = None) -> int:
    """Run the supervisor; after `--until-idle` write the summary. Returns the exit code."""
    clock, bus, seen = SystemClock(), Bus(), _Seen()
    bus.subscribe(LogSubscriber())
    started, started_ms = clock.monotonic(), clock.now_ms()
    summaries: list[Summary] = []
    supervisor = Supervisor(
        options,
        open_store=seen.open,
        clock=clock,
        publish=bus.publish,
        on_summary=summaries.append,
        say=lambda message: tell_running(f"Error: {without_traceback(message)}"),
        on_hello=on_hello,
    )
    leader = os.environ.pop(FOLLOWS, None)
    following = asyncio.create_task(_follow(int(leader), clock)) if leader else None
    try:
        code = await supervisor.run()
    finally:
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
    (summary,) = summaries
    for trouble in (*summary.refused, *summary.problems):
        tell(f"Error: {trouble}")
    # A run that never reached its store has been told why.
    if not (options.until_idle and seen.url):
        return code
    failed = await _failed(seen, started_ms, clock) if summary.failed or summary.crashes else []
    write_summary(summary, failed, clock.monotonic() - started)
    return 1 if options.fail_on_failed and failed and code == 0 else code


def tell_running(text: str) -> None:
    """Write to standard error, and go on although nobody reads it."""
    on_standard_error(text, _PATIENCE_S)


async def _failed(seen: _Seen, started_ms: int, clock: Clock) -> list[tuple[str, str]]:
    try:
        store = await open_store(seen.url, app=seen.app, clock=clock, create=False)
        try:
            return await failed_since(store, started_ms + await store.now_ms() - clock.now_ms())
        finally:
            await store.close()
    except WorkfleetError as error:  # the run itself went well: its result must not depend on this
        tell(f"the failed jobs cannot be listed: {error}")
        return []


async def _follow(leader: int, clock: Clock) -> None:
    """End in order when the process is gone that started this one."""
    while os.getppid() == leader:
        await clock.sleep(_LOOK_S)
    os.kill(os.getpid(), signal.SIGTERM)
