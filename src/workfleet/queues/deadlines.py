"""The deadlines of the runs under way, with one timer for all of them: most runs end long before theirs.

It knows no job: it cancels a task once its time is over, and says so."""

from __future__ import annotations

import asyncio
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

_SLACK = 256


class Deadline:
    """One run's. `expired` says that its time was over before it was `done`."""

    __slots__ = ("done", "expired", "task")

    def __init__(self, task: asyncio.Task[Any] | None) -> None:
        self.task, self.done, self.expired = task, False, False

    def expire(self) -> None:
        """Its time is over: end the run, unless it has ended."""
        if not self.done and self.task is not None:
            self.expired = True
            self.task.cancel()


class Deadlines:
    """For one event loop. What has ended is thrown out in bulk, so that a deadline costs a run next to nothing."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._heap: list[tuple[float, int, Deadline]] = []
        self._numbers = count()
        self._live = 0
        self._first = float("inf")
        """When the timer rings."""
        self._timer: asyncio.TimerHandle | None = None

    def start(self, timeout_ms: int) -> Deadline:
        """The deadline of the running task, from now on."""
        deadline = Deadline(asyncio.current_task(self._loop))
        at = self._loop.time() + timeout_ms / 1000
        heappush(self._heap, (at, next(self._numbers), deadline))
        self._live += 1
        if at < self._first:
            self._arm(at)
        return deadline

    def end(self, deadline: Deadline) -> None:
        """Its run is over."""
        deadline.done = True
        self._live -= 1
        if len(self._heap) > 2 * self._live + _SLACK:
            self._heap = [entry for entry in self._heap if not entry[2].done]
            heapify(self._heap)

    def expire(self, task: asyncio.Task[Any] | None) -> bool:
        """The time of this task's run is over, whatever the clock says. False where it has no deadline."""
        for _, _, deadline in self._heap:
            if deadline.task is task and not deadline.done:
                deadline.expire()
                return True
        return False

    def _arm(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._first, self._timer = at, self._loop.call_at(at, self._ring)

    def _ring(self) -> None:
        self._first, self._timer = float("inf"), None
        now = self._loop.time()
        while self._heap and (self._heap[0][0] <= now or self._heap[0][2].done):
            heappop(self._heap)[2].expire()
        if self._heap:
            self._arm(self._heap[0][0])
