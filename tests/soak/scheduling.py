"""One scheduler process of a soak: a worker whose clock is off by as much as it is told.

Only here does a worker get such a clock; the product has no option for it. It leaves notes outside the store: one
`write` each to a file of its own, which outlives a SIGKILL. A note is the true time in ns, what happened, and about
what: "up SKEW_MS" once it works, "fired SCHEDULE SLOT JOB" as its scheduler tells it, "ran SCHEDULE SLOT JOB" by the
handler."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.soak.slots import Plan
from workfleet import App, Job, catch_up
from workfleet.app.builtins import Basis, OpenStore
from workfleet.app.composition import compose
from workfleet.app.logs import ProcessLogs
from workfleet.app.loops import run_loop
from workfleet.app.runtime import Runtime
from workfleet.app.runtime_options import RuntimeOptions
from workfleet.bus import Bus
from workfleet.clock import SkewedClock, SystemClock
from workfleet.events import Event, ScheduleFired
from workfleet.ids import new_token
from workfleet.observe.logs.subscriber import LogSubscriber
from workfleet.stores.open import open_store

APP = "soak"
MISSED = catch_up(1_000)
"""Whoever comes up with a clock that is ahead finds many slots due at once, and each of them is to run."""
_SETTINGS = {"poll": "1s", "max_crashes": 100, "heartbeat_enabled": False, "log": {"level": "warning"}}
_STOP_MS = 5_000
_OURS = ("WORKER_", "WORKFLEET_", "REDIS_", "DB_")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=ms)


class Notes:
    def __init__(self, place: Path) -> None:
        self._file = os.open(place, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def add(self, *what: object) -> None:
        os.write(self._file, f"{' '.join(map(str, (time.time_ns(), *what)))}\n".encode())

    def ran(self, job: Job[None]) -> None:
        assert job.slot is not None, "only fires make jobs here"
        self.add("ran", job.schedule, (job.slot - _EPOCH) // timedelta(milliseconds=1), job.id)

    def hear(self, event: Event) -> None:
        if isinstance(event, ScheduleFired):
            self.add("fired", event.schedule, event.slot_ms, event.job_id)


def application(plan: Plan, notes: Notes) -> App:
    app = App(APP, store=plan.url)

    def declare(number: int) -> None:
        @app.schedule(
            plan.name(number),
            every=timedelta(milliseconds=plan.every_ms),
            offset=timedelta(milliseconds=plan.offset_ms(number)),
            start=instant(plan.start_ms),
            end=instant(plan.end_ms),
            overlap="allow",
            missed=MISSED,
        )
        async def scheduled(job: Job[None]) -> None:
            notes.ran(job)

    def work_on(queue: str) -> None:
        @app.handler("run", queue=queue, attempts=1)
        async def added(job: Job[None]) -> None:
            notes.ran(job)

    for number in plan.code:
        declare(number)
    for queue in plan.queues:
        work_on(queue)
    return app


def run(plan: Plan, number: int, skew_ms: int, opened: OpenStore = open_store) -> None:
    """The process, the `number`th of the soak. SIGTERM ends it, and so does the end of the process that wanted it.
    `opened` gives it its store."""
    os.chdir(plan.folder)
    for name in [name for name in os.environ if name.startswith(_OURS)]:
        del os.environ[name]
    log = os.open(f"log-{number}", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.dup2(log, 1)
    os.dup2(log, 2)
    run_loop(lambda: _work(plan, Notes(plan.folder / f"notes-{number}"), number, skew_ms, opened))


async def _work(plan: Plan, notes: Notes, number: int, skew_ms: int, opened: OpenStore) -> None:
    stop, loop, parent = asyncio.Event(), asyncio.get_running_loop(), multiprocessing.parent_process()
    assert parent is not None
    loop.add_reader(int(parent.sentinel), os._exit, 1)
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    clock, bus, worker = SkewedClock(SystemClock(), skew_ms), Bus(), f"soak-{number}-{new_token()[:8]}"
    bus.subscribe(LogSubscriber())
    bus.subscribe(notes.hear)
    composition = compose(application(plan, notes), cli=_SETTINGS)
    runtime = Runtime(
        Basis(composition, clock, bus, worker, opened),
        RuntimeOptions(worker=worker, configure_logs=ProcessLogs().configure),
    )
    await runtime.start()
    notes.add("up", skew_ms)
    await stop.wait()
    await runtime.stop(_STOP_MS)
