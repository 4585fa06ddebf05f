"""What the supervisor has counted, on its way to the metric store: a worker writes it there.

Nothing is given up before a worker has said that it is kept. One that dies without a word is followed by another one;
had it just written, the rows are there twice. What is left when no worker is, stays in the log and the text file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from workfleet.ports.metrics import MetricRow
from workfleet.supervision.control import Counted

from .run import Run
from .worker import WorkerProcess

_MOST_PARCELS = 100


class Handing:
    """Called at each look and whenever something was counted; `drain` gives what is new. While too many parcels wait,
    nothing is drained: then it is the instants that become coarse, and no count is lost."""

    def __init__(self, run: Run, drain: Callable[[], list[MetricRow]]) -> None:
        self._run, self._drain = run, drain
        self._parcels: dict[int, list[MetricRow]] = {}
        """Those that nobody has said to keep, in ascending order."""
        self._last = 0
        self._holder: WorkerProcess | None = None
        """The worker that has been given parcels, up to the number `_sent`."""
        self._sent = 0

    def look(self) -> None:
        self._hear()
        if len(self._parcels) < _MOST_PARCELS and (rows := self._drain()):
            self._last += 1
            self._parcels[self._last] = rows
        self._send()

    def _hear(self) -> None:
        holder = self._holder
        if holder is None:
            return
        if holder.child.exited.done():
            holder.hear_out()  # its last words, before another one is given the same
        for number in [number for number in self._parcels if number <= holder.kept]:
            del self._parcels[number]
        if not _works(holder):
            self._holder, self._sent = None, 0

    def _send(self) -> None:
        holder = self._holder = self._holder or _best(self._run.living())
        if holder is None:
            return
        for number, rows in self._parcels.items():
            if number > self._sent:
                holder.send(Counted(number=number, rows=rows))
                self._sent = number


def _works(worker: WorkerProcess) -> bool:
    return worker.ready and not worker.over.is_set() and not worker.child.exited.done()


def _best(workers: Iterable[WorkerProcess]) -> WorkerProcess | None:
    """One whose loop goes on, if there is one."""
    return min(filter(_works, workers), key=lambda worker: worker.still_s, default=None)
