"""Finds workers that are stuck, has them dump their stacks, and kills them. Their slots replace them. Of those whose
loop only stands still for a while it tells (`standstill.py`).

Time is counted by this process's own looks, at most a few seconds each, never by comparing instants: after the machine
slept or everything was paused, each worker gets its full time again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from workfleet.events import Event, WorkerStuck
from workfleet.ports.clock import Clock

from .run import Run
from .standstill import NAMED, Standstill
from .worker import WorkerProcess

_LOOK_S = 1.0
_LONGEST_LOOK_S = 5.0
_OVERDUE_S = 30.0
_DUMP_S = 1.0
_STUCK_AFTER_MS = 600_000
"""Until a worker has said what its settings are: one that hangs while it imports is stuck, too."""


@dataclass
class _Seen:
    loop: Standstill
    progress_ms: int = 0
    idle_s: float = 0.0
    overdue_s: dict[tuple[int, int], float] = field(default_factory=dict)
    stuck_s: float = 0.0
    told: bool = False


class Judge:
    """A Service."""

    name = "judge"

    def __init__(self, run: Run, *, clock: Clock, publish: Callable[[Event], None]) -> None:
        self._run, self._clock, self._publish = run, clock, publish
        self._seen: dict[str, _Seen] = {}

    async def serve(self) -> None:
        last = self._clock.monotonic()
        while True:
            await self._clock.sleep(_LOOK_S)
            now = self._clock.monotonic()
            elapsed_s, last = min(now - last, _LONGEST_LOOK_S), now
            workers = list(self._run.living())
            self._seen = {worker.id: self._seen.get(worker.id) or self._new(worker) for worker in workers}
            for worker in workers:
                self._look(worker, self._seen[worker.id], elapsed_s)

    def _new(self, worker: WorkerProcess) -> _Seen:
        return _Seen(Standstill(worker, clock=self._clock, publish=self._publish))

    def _look(self, worker: WorkerProcess, seen: _Seen, elapsed_s: float) -> None:
        if worker.stuck is not None:
            seen.stuck_s += elapsed_s
            if seen.stuck_s >= _DUMP_S:
                if not seen.told:
                    seen.told = True
                    self._tell(worker, worker.stuck)
                worker.kill("stuck")
            return
        seen.loop.look(elapsed_s)
        why = self._overdue(worker, seen, elapsed_s) or self._halted(worker, seen, elapsed_s)
        if why is not None:
            worker.stuck = why
            self._run.changed.set()
            worker.stacks()  # of what was asked before
            worker.dump(every_thread=True)

    def _tell(self, worker: WorkerProcess, why: str) -> None:
        running = worker.running()
        stuck = WorkerStuck(
            worker=worker.id,
            pid=worker.child.pid,
            why=why,
            active=len(running),
            jobs=tuple(running[:NAMED]),
            stack=worker.stacks(),
        )
        self._publish(stuck)

    def _overdue(self, worker: WorkerProcess, seen: _Seen, elapsed_s: float) -> str | None:
        """A run that outlives its timeout: whatever should have ended it could not."""
        now_ms = self._clock.monotonic() * 1000
        late = [entry for entry in worker.board.entries() if 0 < entry.deadline_ms <= now_ms]
        seen.overdue_s = {
            (entry.slot, entry.sequence): seen.overdue_s.get((entry.slot, entry.sequence), 0.0) + elapsed_s
            for entry in late
        }
        for entry in late:
            if seen.overdue_s[entry.slot, entry.sequence] > _OVERDUE_S:
                return f"job {entry.shown} still runs {_OVERDUE_S:g} s after its deadline"
        return None

    def _halted(self, worker: WorkerProcess, seen: _Seen, elapsed_s: float) -> str | None:
        """An event loop that makes no progress, and no deadline that would tell how long that may last."""
        progress_ms = worker.board.progress_ms()
        if progress_ms != seen.progress_ms:
            seen.progress_ms, seen.idle_s = progress_ms, 0.0
            return None
        seen.idle_s += elapsed_s
        limit_s = (worker.hello.stuck_after_ms if worker.hello else _STUCK_AFTER_MS) / 1000
        if seen.idle_s < limit_s or any(entry.deadline_ms for entry in worker.board.entries()):
            return None
        return f"its event loop has made no progress for {limit_s:g} s"
