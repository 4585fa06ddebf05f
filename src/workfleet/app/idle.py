"""`--until-idle`: watches until nothing is left to do.

Left to do is what waits, runs, or will run again after a failed attempt, here or in another process, dead ones
included, and what a module's service is about to bring in: one with an attribute `idle` that is false. Later delays,
later slots, jobs of paused queues and the product's own jobs are not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from workfleet.errors import StoreUnavailable
from workfleet.events import IdleWaits, WorkLeft
from workfleet.model.jobs import JobCounts
from workfleet.schedules.due import is_live

from .hooks import module_services

if TYPE_CHECKING:
    from .runtime import Runtime

_LOOK_S, _TELL_S = 0.2, 10.0


class IdleWatch:
    """Calls back once when all is done. Two looks in a row must agree, because a run may just be making new jobs."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._task: asyncio.Task[None] | None = None
        self._left: dict[str, int] = {}
        """What stays behind on paused queues, by their names."""

    def start(self, done: Callable[[], None]) -> None:
        self._task = asyncio.create_task(self._watch(done), name="idle watch")

    async def _watch(self, done: Callable[[], None]) -> None:
        clock, quiet = self._runtime.clock, 0
        told_at = clock.monotonic()
        while quiet < 2:
            await clock.sleep(_LOOK_S)
            waits = await self._waits_for()
            quiet = quiet + 1 if not waits else 0
            if not waits or self._runtime.exchange.active:
                told_at = clock.monotonic()
            elif clock.monotonic() - told_at >= _TELL_S:
                self._runtime.bus.publish(IdleWaits(what=", ".join(waits)))
                told_at = clock.monotonic()
        for queue, left in self._left.items():
            self._runtime.bus.publish(WorkLeft(queue=queue, count=left))
        done()

    async def _waits_for(self) -> list[str]:
        """What is left to do; empty when all is done."""
        runtime = self._runtime
        brought = await module_services(runtime.composition.modules, runtime.container)
        # Before the store is asked: what they bring in meanwhile is seen there.
        busy = [service.name for service in brought if not getattr(service, "idle", True)]
        if busy:
            return busy
        try:
            now = await runtime.store.now_ms()
            due = [(r.name, r.next_due_ms) for r in await runtime.store.schedules.all() if is_live(r)]
            counts = await runtime.store.jobs.counts(housekeeping=False)
            queues = await runtime.store.queues.all()
        except StoreUnavailable:
            return ["the store"]
        if runtime.composition.core.scheduler_enabled:
            late = [f"schedule {name}" for name, at in due if at is not None and at <= now]
            if late:
                return late
        listened = {queue: count for queue, count in counts.items() if queue in runtime.table.queues}
        paused = {queue for queue in listened if queue in queues and queues[queue].paused}
        # Nobody hands out jobs of a paused queue: to wait for them would be to wait for a person.
        self._left = {queue: left for queue in paused if (left := _ready(listened[queue]) + listened[queue].retrying)}
        return [what for queue, count in listened.items() for what in _open(queue, count, paused=queue in paused)]


def _open(queue: str, count: JobCounts, *, paused: bool) -> list[str]:
    found = {"running": count.active}
    if not paused:
        found |= {"ready": _ready(count), "to be tried again": count.retrying}
    return [f"{number} {what} on queue {queue}" for what, number in found.items() if number]


def _ready(count: JobCounts) -> int:
    return count.waiting + count.prioritized
