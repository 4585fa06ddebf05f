"""Keeps one worker running: starts it, sees it end, has its claims taken over, decides whether another one follows."""

from __future__ import annotations

from collections.abc import Callable

from workfleet.app.status import WorkerStatus
from workfleet.events import Event, ServiceRestarted, WorkerDied
from workfleet.ports.clock import Clock
from workfleet.supervision.control import FromWorker, Hello, Ready, Refused
from workfleet.supervision.descendants import end_marked_aside, mark_of_children
from workfleet.supervision.intensity import FailureIntensity

from .children import Children
from .custody import Custody
from .options import SupervisorOptions
from .run import Run
from .waiting import first
from .worker import WorkerProcess

_LINGER_S = 5.0
"""How long a worker may take to exit after its last word: code in a thread can hold up the interpreter's end."""
_KILL_S = 5.0
_GROUP_S = 2.0
_STORE_DOWN_EXIT = 3
_NOT_ITS_FAULT = 0.25
"""A death with jobs on the board is charged to those jobs, which have their own crash limit; a worker that came up and
worked for a while does not come up better for waiting."""
_WORKED_S = 5.0


class Slot:
    """The place of one worker. It is over when `run` returns."""

    def __init__(
        self,
        index: int,
        options: SupervisorOptions,
        run: Run,
        children: Children,
        custody: Custody,
        every_slot_loops: Callable[[], bool],
        *,
        clock: Clock,
        publish: Callable[[Event], None],
    ) -> None:
        self.index, self._options, self._run = index, options, run
        self._children, self._custody = children, custody
        self._every_slot_loops = every_slot_loops
        self._clock, self._publish = clock, publish
        self._failures = FailureIntensity(options.restart)
        self._outages = FailureIntensity(options.restart)
        self._restarts = 0
        self._last_exit: str | None = None
        self._last_exit_at = 0.0
        self._last: WorkerStatus | None = None
        self.over = False
        self.dismissed = False
        """An operator told its worker to stop, so no other follows."""

    async def run(self) -> None:
        while not self._run.stopping.is_set():
            wait_ms = await self._one_life()
            if wait_ms is None:
                break
            await first(wait_ms / 1000, self._run.stopping.wait())
            self._restarts += 1
        self.over = True
        self._run.changed.set()

    @property
    def in_crash_loop(self) -> bool:
        return self._failures.in_loop(self._clock.monotonic())

    def status(self) -> WorkerStatus:
        """The living worker's, or that of the place: waiting for the next one, or done."""
        worker = self._run.workers.get(self.index)
        status = worker.status() if worker else self._last
        if status is None:
            status = WorkerStatus(index=self.index, id="", pid=None, state="starting")
        if worker is None:
            status.pid, status.state = None, "stopped" if self.over else "waiting"
        status.last_exit = self._last_exit
        if self._last_exit is not None:
            status.last_exit_age_ms = round((self._clock.monotonic() - self._last_exit_at) * 1000)
        return status

    async def _one_life(self) -> int | None:
        """From start to end. Returns how long to wait before the next one; None: there is none."""
        try:
            worker = WorkerProcess(
                self._options,
                self._children,
                self._clock,
                index=self.index,
                restarts=self._restarts,
                on_message=self._heard,
            )
        except OSError as error:
            return self._again(f"could not be started: {error}", weight=1.0)
        self._run.workers[self.index] = worker
        self._run.changed.set()
        try:
            exit_code = await self._until_ended(worker)
            return await self._after(worker, exit_code)
        finally:
            self._last = worker.status()
            self._run.workers.pop(self.index, None)
            self._run.changed.set()
            worker.close()

    def _heard(self, worker: WorkerProcess, message: FromWorker) -> None:
        if isinstance(message, Hello):
            self._run.greeted(message)
        elif isinstance(message, Ready) and worker.hello is not None:
            self._run.ready()

    async def _until_ended(self, worker: WorkerProcess) -> int | None:
        """Until the process is gone, however that comes. None: it could not be killed."""
        exited = worker.child.exited
        await first(None, exited, self._run.stopping.wait(), worker.over.wait(), worker.dismissed.wait())
        if not exited.done() and not worker.over.is_set():
            worker.drain(self._run.drain_ms)
            await first(self._run.budget_left_s, exited, worker.over.wait())
            if not exited.done() and not worker.over.is_set():
                self._refuse(worker, "did not stop in time")
        if not exited.done() and worker.over.is_set():
            await first(_LINGER_S, exited)
            if not exited.done():
                self._refuse(worker, "did not exit after it had ended its work")
        if worker.killed is not None and not exited.done():
            await first(_KILL_S, exited)
        return exited.result() if exited.done() else None

    def _refuse(self, worker: WorkerProcess, what: str) -> None:
        if worker.killed is None:
            self._run.summary.refused.append(f"worker {worker.index} {what}")
        worker.kill(f"it {what}")

    async def _after(self, worker: WorkerProcess, exit_code: int | None) -> int | None:
        worker.hear_out()
        self._run.count(worker.bye or worker.beat)
        if exit_code is None:
            self._run.summary.refused.append(f"worker {worker.index} (process {worker.child.pid}) cannot be killed")
            return None
        await self._children.gone(worker.child, _GROUP_S)
        # The children of its pools die with it, but not what left their groups.
        await end_marked_aside(mark_of_children(worker.child.pid))
        how = self._last_exit = worker.how_it_ended(exit_code)
        self._last_exit_at = self._clock.monotonic()
        refusal = worker.refusal(exit_code)
        # Whom we stopped, or who stopped in order, has not crashed: what is left on its board is given back.
        in_order = worker.stuck is None and (worker.bye is not None or worker.killed is not None)
        notes = worker.board.entries()
        if refusal is None and not in_order:
            self._run.summary.crashes += 1
            self._publish(WorkerDied(pid=worker.child.pid, how=how))
        if notes or not in_order:
            await self._custody.release(worker, f"the process of worker {{worker}} {how}", given_back=in_order)
        self.dismissed = worker.instruction == "stop"
        if self._run.stopping.is_set() or self.dismissed:
            return None
        if in_order and worker.instruction == "recycle":
            return 0
        if worker.bye is not None and self._options.until_idle:
            return None
        if refusal is not None:
            return self._after_refusal(refusal)
        worked = worker.ready and self._clock.monotonic() - worker.started_at >= _WORKED_S
        return self._again(how, weight=_NOT_ITS_FAULT if notes or worked else 1.0)

    def _after_refusal(self, refusal: Refused) -> int | None:
        """A fleet that worked waits for its store to come back; everything else is for a person to mend."""
        if refusal.exit_code != _STORE_DOWN_EXIT or not self._run.ever_ready:
            self._run.refuse(refusal.exit_code, refusal.message)
            return None
        wait_ms = self._outages.failed(self._clock.monotonic())
        self._publish(ServiceRestarted(service=f"worker {self.index}", error=refusal.message, delay_ms=wait_ms))
        return wait_ms

    def _again(self, how: str, *, weight: float) -> int | None:
        wait_ms = self._failures.failed(self._clock.monotonic(), weight=weight)
        if self._every_slot_loops():
            self._run.refuse(1, f"every worker keeps dying at once. The last one {how}")
            return None
        self._publish(ServiceRestarted(service=f"worker {self.index}", error=f"it {how}", delay_ms=wait_ms))
        return wait_ms
