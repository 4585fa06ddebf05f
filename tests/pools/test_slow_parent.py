"""A deadline that passes while this process itself stands still is not the child's fault: it is heard first."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.pools.conftest import MakePool
from tests.pools.supervised import Worker
from tests.pools.support import wait_until
from workfleet.clock import SystemClock
from workfleet.errors import CallTimeout, PoolFailed
from workfleet.events import ChildDied, Event
from workfleet.pools.deadlines import Deadlines
from workfleet.pools.link import OnFrames
from workfleet.pools.options import ChildSpec, PoolOptions, RestartPolicy
from workfleet.pools.output import OnOutput
from workfleet.pools.pool import ProcessPool
from workfleet.pools.process import Child, spawn

WORKER = ChildSpec.of(Worker)


def block(seconds: float) -> None:
    """Holds the loop, as user code may."""
    time.sleep(seconds)


@pytest.mark.full
@pytest.mark.parametrize(("build", "blocked"), [(0.0, 6.0), (1.5, 4.0)])
async def test_a_child_that_was_told_late_what_to_be_is_not_blamed(build: float, blocked: float) -> None:
    """The loop stands still before the first frame leaves: the child cannot even begin, and has all its time after."""
    events: list[Event] = []

    async def late(label: str, on_frames: OnFrames, on_output: OnOutput | None) -> Child:
        child = await spawn(label, on_frames, on_output)
        asyncio.get_running_loop().call_soon(block, blocked)
        return child

    pool = ProcessPool(
        ChildSpec("tests.pools.supervised:slowly", (build,)),
        PoolOptions(name="p", size=1, startup_timeout_ms=5_000, restart=RestartPolicy(max_restarts=0)),
        clock=SystemClock(),
        publish=events.append,
        spawn=late,
    )
    pool.start()
    await pool.wait_ready()
    assert [event for event in events if isinstance(event, ChildDied)] == []
    await pool.stop(5_000)


async def test_a_child_that_is_slow_itself_is_blamed_all_the_same(make_pool: MakePool) -> None:
    made = make_pool(
        ChildSpec("tests.pools.workers:slow_to_build"),
        startup_timeout_ms=1_500,
        restart=RestartPolicy(max_restarts=0),
    )
    await wait_until(lambda: bool(made.pool.stats().pids))
    block(2.0)
    started = time.monotonic()
    with pytest.raises(PoolFailed, match="was not ready within 1500 ms, still building"):
        await made.pool.wait_ready()
    assert time.monotonic() - started < 4.0


async def test_a_result_that_came_in_time_is_taken_though_it_is_read_late(make_pool: MakePool) -> None:
    """So large that the loop needs many turns to read it: the deadline is seen before the result is whole."""
    made = make_pool(WORKER)
    await made.pool.wait_ready()
    call = asyncio.create_task(made.pool.call("bulky", (60_000_000, 0.1), timeout_ms=1_500))
    await asyncio.sleep(0.05)
    block(2.5)
    assert len(await call) == 60_000_000
    assert made.told(ChildDied) == []


async def test_a_call_that_takes_too_long_is_ended_though_this_process_is_late(make_pool: MakePool) -> None:
    made = make_pool(WORKER)
    await made.pool.wait_ready()
    call = asyncio.create_task(made.pool.call("rest", (60.0,), timeout_ms=500))
    await asyncio.sleep(0.05)
    block(1.5)
    started = time.monotonic()
    with pytest.raises(CallTimeout):
        await call
    assert time.monotonic() - started < 4.0


async def test_an_answer_to_a_health_check_that_came_in_time_counts(make_pool: MakePool) -> None:
    made = make_pool(WORKER, health_interval_ms=100, health_timeout_ms=300)
    await made.pool.wait_ready()
    for _ in range(5):
        block(0.6)
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.3)
    assert made.told(ChildDied) == []
    (pid,) = made.pool.stats().pids
    os.kill(pid, signal.SIGSTOP)
    await wait_until(lambda: bool(made.told(ChildDied)))
    assert made.told(ChildDied)[0].why.startswith("did not answer a health check")


class Judged:
    """Notes what is done with its deadline."""

    def __init__(self, due: float) -> None:
        self.due = due
        self.done: list[str] = []

    def deadline(self) -> float:
        return self.due

    def excuse(self, seconds: float) -> None:
        self.done.append("excused")
        self.due = self.due + seconds if self.on_excuse is None else self.on_excuse()

    def expire(self) -> None:
        self.done.append("expired")
        self.due = float("inf")

    on_excuse: Callable[[], float] | None = None


class LateClock:
    """As if every look came two seconds after the deadline."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now_ms(self) -> int:
        return 0

    def monotonic(self) -> float:
        return self.ahead

    async def sleep(self, seconds: float) -> None: ...


@pytest.mark.parametrize(("late", "done"), [(0.05, ["expired"]), (2.0, ["excused"] * 5 + ["expired"])])
async def test_a_process_that_is_always_late_judges_in_the_end(late: float, done: list[str]) -> None:
    clock = LateClock()
    judged = Judged(10.0)
    judged.on_excuse = lambda: clock.ahead - late  # late again at the next look
    clock.ahead = 10.0 + late
    deadlines = Deadlines(clock)
    one: Any = judged
    deadlines.timed = lambda: [one]
    serving = asyncio.create_task(deadlines.serve())
    await wait_until(lambda: judged.done[-1:] == ["expired"])
    serving.cancel()
    assert judged.done == done


async def test_what_is_heard_in_the_last_moment_is_not_judged() -> None:
    clock, judged = LateClock(), Judged(10.0)
    clock.ahead = 10.01
    one: Any = judged
    deadlines = Deadlines(clock)
    deadlines.timed = lambda: [one]
    serving = asyncio.create_task(deadlines.serve())

    def hear() -> None:
        judged.due = float("inf")

    asyncio.get_running_loop().call_soon(hear)  # what lies in the socket is read in the same turn
    for _ in range(5):
        await asyncio.sleep(0)
    serving.cancel()
    assert judged.done == []
