"""Tells when a worker's event loop stands still, what runs there and where its code stands; and when it goes on."""

from __future__ import annotations

from collections.abc import Callable

from workfleet.events import Event, WorkerBlocked, WorkerDumped, WorkerWentOn
from workfleet.ports.clock import Clock

from .worker import WorkerProcess

BLOCKED_S = 5.0
"""Other jobs of the worker wait as long, so it is worth a line; a loop beats every second."""
_LONGEST_LOOK_S = 1.5
"""After a pause of everything, a worker has several looks' time to beat again."""
NAMED = 20
"""So many of the jobs are named."""


class Standstill:
    """What the judge knows of the loop of one worker. It reads what the worker shares, and needs nothing of its loop
    or its interpreter lock."""

    def __init__(self, worker: WorkerProcess, *, clock: Clock, publish: Callable[[Event], None]) -> None:
        self._worker, self._clock, self._publish = worker, clock, publish
        self._progress_ms = 0
        self._still_s = 0.0
        self._asked = False
        self._told: tuple[str, ...] | None = None
        """The jobs that were named when it was told; None: it was not told."""

    def look(self, elapsed_s: float) -> None:
        """So much time after the look before."""
        progress_ms = self._worker.board.progress_ms()
        if progress_ms != self._progress_ms:
            self._moved(progress_ms)
        elif progress_ms:  # 0: the loop does not beat yet, or no more
            self._still_s += min(elapsed_s, _LONGEST_LOOK_S)
            if self._asked and self._told is None:
                self._tell(int(self._clock.monotonic() * 1000))
            elif self._still_s >= BLOCKED_S and not self._asked:
                self._asked = True
                self._worker.dump(every_thread=False)  # it has until the next look
                return
        stack = self._worker.stacks()
        if stack:
            worker = self._worker
            self._publish(WorkerDumped(worker=worker.id, pid=worker.child.pid, stack=stack))

    def _moved(self, progress_ms: int) -> None:
        if self._asked:
            at_ms = progress_ms or int(self._clock.monotonic() * 1000)
            named = self._told if self._told is not None else self._tell(at_ms)
            worker = self._worker
            self._publish(
                WorkerWentOn(
                    worker=worker.id,
                    index=worker.index,
                    pid=worker.child.pid,
                    blocked_ms=at_ms - self._progress_ms,
                    active=len(worker.running()),
                    jobs=named,
                )
            )
        self._progress_ms, self._still_s, self._asked, self._told = progress_ms, 0.0, False, None

    def _tell(self, at_ms: int) -> tuple[str, ...]:
        worker = self._worker
        running = worker.running()
        named = self._told = tuple(running[:NAMED])
        self._publish(
            WorkerBlocked(
                worker=worker.id,
                index=worker.index,
                pid=worker.child.pid,
                blocked_ms=at_ms - self._progress_ms,
                active=len(running),
                jobs=named,
                stack=worker.stacks(),
            )
        )
        return named
