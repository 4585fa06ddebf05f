"""A worker process under a supervisor: `python -m workfleet.app.worker`, started with an order in its environment.

It leaves signals to the supervisor, says hello, ready, beats and goodbye, and drains when it is told to.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import traceback
from functools import partial

from workfleet.bus import Bus
from workfleet.clock import SystemClock
from workfleet.errors import ConfigError, Problem, UsageError, WorkfleetError
from workfleet.events import WorkerStopped
from workfleet.observe.logs.subscriber import LogSubscriber
from workfleet.observe.logs.writers import without_blocking
from workfleet.observe.metrics.handed import Handed
from workfleet.settings.sections import LogSettings, MetricsSettings, SchedulerSettings
from workfleet.stores.open import MEMORY, open_store
from workfleet.supervision.board import Board
from workfleet.supervision.control import (
    Bye,
    Counted,
    Drain,
    FromSupervisor,
    Hello,
    HttpOrder,
    Kept,
    Lost,
    Measured,
    MetricsOrder,
    Ready,
    Recovered,
    Refused,
    Told,
    WorkerOrder,
    read_order,
)
from workfleet.supervision.forks import StrayForks
from workfleet.supervision.lifeline import die_with_parent, dump_on_signal, end_group, leave_signals_to_parent
from workfleet.supervision.link import WorkerEnd

from .aftermath import keep_of
from .beats import Beats
from .builtins import Basis
from .composition import Composition, composition_of
from .idle import IdleWatch
from .logs import ProcessLogs, own_destinations
from .loops import run_loop
from .patience import Patience
from .policies import milliseconds
from .runtime import Runtime
from .runtime_options import RuntimeOptions
from .status import default_status_file

_FLUSH_S = 1.0
"""How long whoever reads what user code has printed is waited for at the end."""
_PYTHONS_SWITCH_S, _SWITCH_S = 0.005, 0.0001
_PYTHONS_THRESHOLDS = ((700, 10, 10), (2_000, 10, 0), (2_000, 10, 10))
"""As an interpreter starts: up to 3.12, from 3.13 on, and from 3.14 on."""


class Worker:
    """What `main` runs: one runtime, and the conversation about it."""

    def __init__(self, order: WorkerOrder, logs: ProcessLogs) -> None:
        self._order, self._logs = order, logs
        self._drain: asyncio.Future[Drain | None] = asyncio.get_running_loop().create_future()
        self._link = WorkerEnd(order.control_fd, self._hear, end_group)
        self._handed = Handed(asyncio.Queue(), lambda number: self._link.send(Kept(number=number)))
        self._runtime: Runtime | None = None

    async def run(self) -> int:
        """Start, work, drain. Returns the exit code; what a start fails with is told to the supervisor."""
        try:
            stopped = await self._work()
        except UsageError as error:
            # A mistake in the application's code: what matters is where it stands.
            return self._refuse_code(error)
        except WorkfleetError as error:
            self._refuse(error.exit_code, str(error))
            return error.exit_code
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary around user code
            return self._refuse_code(error)
        assert self._runtime is not None
        self._link.send(
            Bye(
                completed=stopped.completed,
                failed=stopped.failed,
                given_back=stopped.given_back,
                refused=stopped.refused,
                problems=tuple(self._runtime.problems),
            )
        )
        self._link.close()
        return 0

    async def _work(self) -> WorkerStopped:
        order, clock, bus = self._order, SystemClock(), Bus()
        composition = composition_of(order.app, order.config)
        bus.subscribe(LogSubscriber())
        if composition.store_url == MEMORY:
            # Its supervisor could neither renew nor recover what only this process knows.
            message = "a store in memory is for tests and App.run(): `workfleet run` needs one that processes share"
            raise ConfigError(Problem("WORKER_STORE", message, MEMORY))
        # What runs until it is idle is waited for by somebody, who is told at once.
        opened = open_store if order.until_idle else Patience(self._drain, bus.publish).open
        basis = Basis(composition, clock, bus, order.worker_id, opened, Board.attach(order.board_fd, clock=clock))
        options = RuntimeOptions(
            worker=order.worker_id,
            announce=order.index == 0 and order.restarts == 0,
            queues=order.queues,
            index=order.index,
            processes=order.processes,
            locator=order.app,
            config=order.config,
            configure_logs=partial(self._logs.configure, own=own_destinations(composition.modules)),
            tell_metrics=lambda samples: self._link.send(Measured(list(samples))),
            handed=self._handed,
            extra_services=lambda runtime: [Beats(runtime, self._link.send)],
            on_instruction=lambda instruction: self._link.send(Told(instruction)),
        )
        self._link.send(self._hello(composition))
        self._runtime = Runtime(basis, options)
        await self._runtime.start()
        _calm_the_collector()
        _share_the_interpreter()
        self._link.send(Ready())
        if order.until_idle:
            IdleWatch(self._runtime).start(self._finish)
        drain = await self._drain
        core = composition.core
        return await self._runtime.stop(milliseconds(core.shutdown_timeout) if drain is None else drain.timeout_ms)

    def _hello(self, composition: Composition) -> Hello:
        core = composition.core
        return Hello(
            worker_id=self._order.worker_id,
            pid=os.getpid(),
            app=composition.app.name,
            store=composition.store_url,
            locks=composition.locks_url,
            lease_ms=milliseconds(core.lease),
            max_crashes=core.max_crashes,
            stuck_after_ms=milliseconds(core.stuck_after),
            shutdown_timeout_ms=milliseconds(core.shutdown_timeout),
            ledger=keep_of(composition.loaded.section("scheduler", SchedulerSettings)),
            metrics=_metrics_order(composition.loaded.section("metrics", MetricsSettings)),
            logs=composition.loaded.section("log", LogSettings).model_dump(mode="json"),
            http=None if core.http_port is None else HttpOrder(port=core.http_port, host=core.http_host),
            status_file=str(core.status_file or default_status_file(composition.loaded.project, composition.app.name)),
        )

    def _hear(self, message: FromSupervisor) -> None:
        if isinstance(message, Lost):
            if self._runtime is not None and self._runtime.ready:
                self._runtime.exchange.lose(message.claim)
        elif isinstance(message, Recovered):
            if self._runtime is not None and self._runtime.ready:
                self._runtime.aftermath.recovered(message.run)
        elif isinstance(message, Counted):
            self._handed.parcels.put_nowait((message.number, message.rows))
        elif not self._drain.done():
            self._drain.set_result(message)

    def _finish(self) -> None:
        if not self._drain.done():
            self._drain.set_result(None)

    def _refuse_code(self, error: BaseException) -> int:
        """Refuse with the place in the user's code; the command line shows the last line of the traceback, or all."""
        where = "".join(traceback.format_exception(error)).strip()
        self._refuse(78, f"the application cannot start:\n{where}")
        return 78

    def _refuse(self, exit_code: int, message: str) -> None:
        self._link.send(Refused(exit_code=exit_code, message=message))
        self._link.close()


def _metrics_order(settings: MetricsSettings) -> MetricsOrder | None:
    if not settings.collection.enabled:
        return None
    file = None if settings.textfile is None else str(settings.textfile.absolute())
    return MetricsOrder(interval_ms=milliseconds(settings.collection.interval), textfile=file)


def _calm_the_collector() -> None:
    """What is loaded lives as long as the process, and a job's short-lived objects are in no cycles: the garbage
    collector would look at all of them again and again. An application that has set its own thresholds keeps them."""
    gc.collect()
    gc.freeze()
    if gc.get_threshold() in _PYTHONS_THRESHOLDS:
        gc.set_threshold(20_000, 20, 50)


def _share_the_interpreter() -> None:
    """The thread of a SQLite store needs the interpreter for moments, many times in a call: while jobs keep the event
    loop busy, it would wait for each as long as all that it does takes. An application's own interval is kept."""
    if sys.getswitchinterval() == _PYTHONS_SWITCH_S:
        sys.setswitchinterval(_SWITCH_S)


def main() -> None:
    """The process. It ends without waiting for threads that user code left running."""
    order = read_order(os.environ)
    die_with_parent(order.lifeline_fd, order.supervisor_pid)
    leave_signals_to_parent()
    dump_on_signal(order.stacks_fd)
    logs = ProcessLogs()
    logs.configure(LogSettings())

    async def run() -> None:
        with StrayForks():
            code = await Worker(order, logs).run()
        logs.close()
        for stream in (sys.stdout, sys.stderr):
            without_blocking(stream.flush, _FLUSH_S)
        # From inside the loop: closing it would wait for threads and tasks that user code has left running.
        os._exit(code)

    run_loop(run)


if __name__ == "__main__":
    main()
