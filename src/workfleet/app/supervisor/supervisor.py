"""The supervisor: lists what it is made of, listens to signals, and ends with an exit code."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from workfleet.app.status import WorkerStatus
from workfleet.events import Event
from workfleet.observe.logs.writers import on_standard_error
from workfleet.ports.clock import Clock
from workfleet.supervision.control import Hello
from workfleet.supervision.lifeline import adopt_orphans
from workfleet.supervision.service import ServiceGroup

from .children import Children
from .custody import Custody, OpenStore
from .http_port import HttpPort
from .judge import Judge
from .measures import Measures
from .options import Summary, SupervisorOptions
from .pages import pages_of
from .reporter import Reporter
from .run import Run
from .slot import Slot
from .waiting import first

_SAY_S = 1.0
"""How long whoever reads standard error is waited for."""
_CLOSE_MS = 3_000
"""The least time for that, also when the budget is used up, and the most after a second signal."""


class Supervisor:
    """Runs a fleet process group: `await Supervisor(…).run()` in the main thread of a process of its own.

    It waits for every child of its process, also for those that it has not started."""

    def __init__(
        self,
        options: SupervisorOptions,
        *,
        open_store: OpenStore,
        clock: Clock,
        publish: Callable[[Event], None],
        on_summary: Callable[[Summary], None],
        say: Callable[[str], None] | None = None,
        on_hello: Callable[[Hello], None] | None = None,
    ) -> None:
        """`say` shows a message to whoever started it, by default on standard error. `on_hello` hears what the first
        worker says of the application and its settings."""
        self._options, self._clock = options, clock
        self._on_summary = on_summary
        self._run = Run(options, clock, say or _say, on_hello)
        self._children = Children(clock)
        self.measures = Measures(self._run, clock, publish)
        publish = self.measures.publish
        custody = Custody(self._run, open_store, clock=clock, publish=publish)
        self._slots = [
            Slot(
                index,
                options,
                self._run,
                self._children,
                custody,
                self._every_slot_loops,
                clock=clock,
                publish=publish,
            )
            for index in range(options.processes)
        ]
        judge = Judge(self._run, clock=clock, publish=publish)
        self._reporter = Reporter(options, self._run, custody, self._statuses, clock=clock, publish=publish)
        pages = pages_of(self._reporter.status, self.measures.samples)
        port = HttpPort(self._run, pages, clock=clock, publish=publish)
        # Stopped in reverse: the file tells of the stop until its end, the store is closed last.
        self._services = ServiceGroup(
            "supervisor", [custody, judge, self._reporter, self.measures, port], clock=clock, publish=publish
        )

    async def run(self) -> int:
        """Run until there is nothing left to do or a signal ends it. Returns the exit code.

        0 drained, idle, or every worker was told to stop; 1 something refused to stop, every worker is in a crash
        loop, or jobs failed and `fail_on_failed` is set; 3 the store cannot be reached at the start; 78 wrong
        configuration; 130 a second signal."""
        adopt_orphans()
        self._children.listen()
        listened = self._listen()
        services = asyncio.create_task(self._services.serve(), name="supervisor services")
        try:
            async with asyncio.TaskGroup() as group:
                for slot in self._slots:
                    group.create_task(slot.run(), name=f"worker {slot.index}")
            if all(slot.dismissed for slot in self._slots):
                self._run.stop("every worker was told to stop")
        finally:
            for worker in self._run.living():
                worker.kill("its supervisor failed")
            self._run.summary.refused += await self._close()
            # A service that refused is left behind, so the group's own task is not waited for but ended.
            services.cancel()
            await asyncio.gather(services, return_exceptions=True)
            self._run.state = "stopped"
            self._reporter.write()
            for number in listened:
                asyncio.get_running_loop().remove_signal_handler(number)
            self._children.close()
        self._on_summary(self._run.summary)
        return self._exit_code()

    def _listen(self) -> list[signal.Signals]:
        """SIGTERM and SIGINT stop, a second one at once. SIGHUP stops, but is never the second: terminals and service
        managers send it along with another one. Where it is ignored (nohup), it stays ignored."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._run.told_to_stop, number.name)
        listened = [signal.SIGTERM, signal.SIGINT]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            loop.add_signal_handler(signal.SIGHUP, self._run.stop, "stopped by SIGHUP")
            listened.append(signal.SIGHUP)
        return listened

    async def _close(self) -> tuple[str, ...]:
        """End its own services, which the store may hold up while it closes. They have what is left of the budget,
        until a second signal. Returns who refused."""
        left_ms = max(round(self._run.budget_left_s * 1000), _CLOSE_MS)
        closing = asyncio.create_task(self._services.stop(left_ms), name="supervisor close")
        await first(None, closing, self._run.killed.wait())
        await first(_CLOSE_MS / 1000, closing)
        if closing.done():
            return closing.result()
        closing.cancel()
        return ()

    def _every_slot_loops(self) -> bool:
        return all(slot.in_crash_loop for slot in self._slots if not slot.over)

    def _statuses(self) -> list[WorkerStatus]:
        return [slot.status() for slot in self._slots]

    def _exit_code(self) -> int:
        summary = self._run.summary
        if self._run.exit_code:
            return self._run.exit_code
        failed = self._options.until_idle and self._options.fail_on_failed and summary.failed > 0
        return 1 if summary.refused or failed else 0


def _say(message: str) -> None:
    on_standard_error(message, _SAY_S)
