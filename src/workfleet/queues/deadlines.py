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

    __slots__ = ("_of", "_task", "done", "expired")

    def __init__(self, of: Deadlines, task: asyncio.Task[Any]) -> None:
        self._of, self._task = of, task
        self.done = self.expired = False

    def end(self) -> None:
        """The run is over."""
        self.done = True
        self._of.ended()

    def expire(self) -> None:
        """Its time is over: end the run, unless it has ended."""
        if not self.done:
            self.expired = True
            self._task.cancel()


class Deadlines:
    """For one event loop. What has ended is thrown out in bulk, so that a deadline costs a run next to nothing."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Deadline]] = []
        self._numbers = count()
        self._live = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self, timeout_ms: int) -> Deadline:
        """The deadline of the running task, from now on."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        deadline = Deadline(self, task)
        at = loop.time() + timeout_ms / 1000
        heappush(self._heap, (at, next(self._numbers), deadline))
        self._live += 1
        if self._timer is None or at < self._timer.when():
            self._arm(loop)
        return deadline

    def ended(self) -> None:
        """One of them is over."""
        self._live -= 1
        if len(self._heap) > 2 * self._live + _SLACK:
            self._heap = [entry for entry in self._heap if not entry[2].done]
            heapify(self._heap)

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(self._heap[0][0], self._ring, loop)

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        while self._heap and (self._heap[0][0] <= now or self._heap[0][2].done):
            heappop(self._heap)[2].expire()
        if self._heap:
            self._arm(loop)
