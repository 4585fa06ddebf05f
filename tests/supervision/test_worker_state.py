"""What the status file says of a worker, without a process behind it."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from tests.supervision.fakes import SteppingClock, until
from workfleet.app.supervisor.options import SupervisorOptions
from workfleet.app.supervisor.worker import WorkerProcess
from workfleet.supervision.control import ORDER_VARIABLE, Beat, FromWorker, Hello, Ready, WorkerOrder


class NoChildren:
    """Starts nothing: the test keeps the worker's ends and speaks for it. SIGKILL does nothing to such a worker."""

    def start(self, command: Sequence[str], environ: Mapping[str, str], fds: Sequence[int]) -> Any:
        self.order = msgspec.json.decode(environ[ORDER_VARIABLE], type=WorkerOrder)
        self.socket = socket.socket(fileno=os.dup(self.order.control_fd))
        return self

    pid = 4242

    def kill_group(self) -> None:
        pass

    def say(self, message: FromWorker) -> None:
        self.socket.sendall(msgspec.json.encode(message) + b"\n")


class Stage:
    def __init__(self) -> None:
        self.clock, self.children = SteppingClock(), NoChildren()
        self.heard: list[FromWorker] = []
        self.worker = WorkerProcess(
            SupervisorOptions(app="shop:app", processes=2, queues=("a",), until_idle=True, config={"x": 1}),
            self.children,  # type: ignore[arg-type]
            self.clock,
            index=1,
            restarts=3,
            on_message=lambda worker, message: self.heard.append(message),
        )

    async def say(self, message: FromWorker) -> None:
        self.children.say(message)
        before = len(self.heard)
        await until(lambda: len(self.heard) > before)


@pytest.fixture
async def stage() -> Any:
    made = Stage()
    yield made
    made.worker.close()
    made.children.socket.close()


HELLO = Hello(
    worker_id="w",
    pid=1,
    app="shop",
    store="x",
    lease_ms=1,
    max_crashes=3,
    stuck_after_ms=1,
    shutdown_timeout_ms=1,
    status_file=None,
)


async def test_the_order_says_everything_that_the_options_say(stage: Stage) -> None:
    order = stage.children.order
    assert (order.app, order.index, order.restarts, order.processes) == ("shop:app", 1, 3, 2)
    assert (order.until_idle, order.queues, order.config) == (True, ("a",), {"x": 1})
    assert (order.worker_id, order.supervisor_pid) == (stage.worker.id, os.getpid())


async def test_ages_count_from_what_was_heard(stage: Stage) -> None:
    assert stage.worker.status().beat_age_ms is None
    beat = Beat(active=1, completed=2, failed=3, loop_lag_ms=4, store_ok_ms=999_000, store_error=None, unready=("p",))
    await stage.say(beat)
    stage.clock.seconds += 2.5
    status = stage.worker.status()
    assert (status.beat_age_ms, status.store_ok_age_ms, status.uptime_ms) == (2_500, 3_500, 2_500)
    assert (status.active, status.completed, status.failed, status.loop_lag_ms) == (1, 2, 3, 4)
    assert status.unready == ("p",)


async def test_a_state_follows_what_happens(stage: Stage) -> None:
    states = [stage.worker.status().state]
    await stage.say(HELLO)
    await stage.say(Ready())
    states.append(stage.worker.status().state)
    stage.worker.drain(1_000)
    states.append(stage.worker.status().state)
    assert states == ["starting", "ready", "draining"]


async def test_a_stuck_worker_counts_as_stuck_only_when_it_cannot_be_killed(stage: Stage) -> None:
    """Liveness must not fall while it is being replaced."""
    stage.worker.stuck = "why"
    assert stage.worker.status().state == "waiting"
    stage.worker.kill("stuck")
    stage.clock.seconds += 10
    stage.worker.kill("stuck")
    assert stage.worker.status().state == "waiting"
    stage.clock.seconds += 0.1
    assert stage.worker.status().state == "stuck"
