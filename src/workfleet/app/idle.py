"""`--until-idle`: watches until nothing is left to do.

Left to do is what waits, runs, or will run again after a failed attempt, here or in another process, dead ones
included, and what a module's service is about to bring in: one with an attribute `idle` that is false. Later delays,
later slots and the product's own jobs are not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from workfleet.errors import StoreUnavailable
from workfleet.model.jobs import JobCounts
from workfleet.schedules.due import is_live

from .hooks import module_services

if TYPE_CHECKING:
    from .runtime import Runtime

_LOOK_S = 0.2


class IdleWatch:
    """Calls back once when all is done. Two looks in a row must agree, because a run may just be making new jobs."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._task: asyncio.Task[None] | None = None

    def start(self, done: Callable[[], None]) -> None:
        self._task = asyncio.create_task(self._watch(done), name="idle watch")

    async def _watch(self, done: Callable[[], None]) -> None:
        quiet = 0
        while quiet < 2:
            await self._runtime.clock.sleep(_LOOK_S)
            quiet = quiet + 1 if await self._is_idle() else 0
        done()

    async def _is_idle(self) -> bool:
        runtime = self._runtime
        brought = await module_services(runtime.composition.modules, runtime.container)
        # Before the store is asked: what they bring in meanwhile is seen there.
        if not all(getattr(service, "idle", True) for service in brought):
            return False
        try:
            now = await runtime.store.now_ms()
            due = [r.next_due_ms for r in await runtime.store.schedules.all() if is_live(r)]
            counts = await runtime.store.jobs.counts(housekeeping=False)
        except StoreUnavailable:
            return False
        if runtime.composition.core.scheduler_enabled and any(at <= now for at in due if at is not None):
            return False
        listened = runtime.table.queues
        return not any(_open(count) for queue, count in counts.items() if queue in listened)


def _open(count: JobCounts) -> bool:
    return bool(count.waiting + count.prioritized + count.active + count.retrying)
