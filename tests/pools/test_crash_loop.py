"""A thousand crashes by an injected spawner and clock, thirty real ones: the policy exactly, flat memory."""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import psutil
import pytest

from workfleet.clock import SystemClock
from workfleet.errors import PoolFailed
from workfleet.events import ChildDied, Event
from workfleet.events import PoolFailed as PoolFailedEvent
from workfleet.model.policy import Backoff
from workfleet.pools import wire
from workfleet.pools.link import OnFrames
from workfleet.pools.options import ChildSpec, PoolOptions, RestartPolicy
from workfleet.pools.output import OnOutput
from workfleet.pools.pool import ProcessPool
from workfleet.pools.process import Child, Exit, Spawn, spawn
from workfleet.testing.clock import TestClock

WAITS = [5, 10, 20, 40, 80, 160] + [300] * 994
"""Milliseconds: the policy of `crashing`. The first is the least time between two starts."""


TURNS = 15
"""More turns of the loop than lie between a death and the wait for the next start."""


async def drive(clock: TestClock, until: asyncio.Future[Any]) -> None:
    """Time passes from one waker to the next, as soon as everybody sleeps."""
    while not until.done():
        for _ in range(TURNS):
            await asyncio.sleep(0)
        if clock.sleepers:
            clock.move_to(min(sleeper.due_ms for sleeper in clock.sleepers))


class Doomed:
    """A child that dies of being told what to be."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.arguments = None
        self.ended: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()

    def send(self, pieces: list[bytes]) -> None:
        if wire.HEADER.unpack_from(pieces[0])[1] == wire.BOOT:
            self.ended.set_result(Exit(1, "exit code 1", f"words of {self.pid}", 1_000_000))

    def kill(self) -> None: ...
    def look(self) -> None: ...
    def dump(self) -> None: ...
    def catch_up(self) -> None: ...

    def begun(self) -> int:
        return 0

    def beats(self) -> int:
        return 0

    def phase(self) -> str:
        return "importing"


class Told:
    """Counts events and keeps the last of each kind: a list of all would be what grows."""

    def __init__(self) -> None:
        self.count: Counter[type[Event]] = Counter()
        self.last: dict[type[Event], Event] = {}

    def __call__(self, event: Event) -> None:
        self.count[type(event)] += 1
        self.last[type(event)] = event


def crashing(clock: TestClock, told: Told, spawn: Spawn, *, size: int, max_restarts: int) -> ProcessPool:
    policy = RestartPolicy(
        max_restarts=max_restarts, window_ms=10**9, delay_ms=5, backoff=Backoff("exponential", 10, 300)
    )
    options = PoolOptions(
        name="p", size=size, restart=policy, health_interval_ms=None, sweep_interval_ms=None, stuck_after_ms=None
    )
    return ProcessPool(ChildSpec("m:f"), options, clock=clock, publish=told, spawn=spawn, draw=lambda: 1.0)


def recorder(note: Callable[[], None]) -> Spawn:
    started = 0

    async def spawn(label: str, on_frames: OnFrames, on_output: OnOutput | None) -> Child:
        nonlocal started
        note()
        started += 1
        return Doomed(started)

    return spawn


async def failure(clock: TestClock, pool: ProcessPool) -> PoolFailed:
    waiting = asyncio.create_task(pool.wait_ready())
    await drive(clock, waiting)
    error = waiting.exception()
    assert isinstance(error, PoolFailed)
    return error


async def test_a_thousand_restarts_at_exactly_their_instants_and_not_one_more() -> None:
    clock, told = TestClock(0), Told()
    starts: list[int] = []
    pool = crashing(clock, told, recorder(lambda: starts.append(clock.now_ms())), size=1, max_restarts=1_000)
    pool.start()
    waiting = asyncio.create_task(pool.call("m"))
    await drive(clock, waiting)
    with pytest.raises(
        PoolFailed, match="1001 children died and none completed a call; the last: exit code 1 while imp"
    ) as caught:
        await waiting
    assert caught.value.last_words == "words of 1001"
    assert starts == [0, *accumulate(WAITS)]
    assert told.count[ChildDied] == 1_001
    assert told.count[PoolFailedEvent] == 1
    failed = told.last[PoolFailedEvent]
    assert isinstance(failed, PoolFailedEvent)
    assert (failed.reason, failed.last_words) == (caught.value.reason, "words of 1001")
    stats = pool.stats()
    assert (stats.restarts, stats.state, stats.queued, stats.pids) == (1_000, "failed", 0, ())
    with pytest.raises(PoolFailed, match="words of 1001"):
        await pool.call("m")
    pool.scale(1)  # an operator has it tried anew: the whole policy once more
    await failure(clock, pool)
    assert (pool.stats().restarts, len(starts)) == (2_000, 2_002)
    assert await pool.stop(1_000) == 0


async def test_the_budget_of_a_larger_pool_is_exact_too() -> None:
    told, starts = Told(), [0]

    def note() -> None:
        starts[0] += 1

    clock = TestClock(0)
    pool = crashing(clock, told, recorder(note), size=4, max_restarts=3)
    pool.start()
    assert (await failure(clock, pool)).reason.startswith("13 children died")
    await pool.stop(1_000)
    assert pool.stats().restarts == 12
    # Of the other three at most the start that was waited for already may have come after the last death.
    assert 13 <= starts[0] <= 16


async def test_the_parents_memory_is_flat_over_a_thousand_crashes() -> None:
    held: dict[int, int] = {}
    started = 0

    def note() -> None:
        nonlocal started
        started += 1
        if started in (200, 1_000):
            gc.collect()
            held[started] = tracemalloc.get_traced_memory()[0]

    clock = TestClock(0)
    pool = crashing(clock, Told(), recorder(note), size=1, max_restarts=1_000)
    tracemalloc.start()
    try:
        pool.start()
        await failure(clock, pool)
    finally:
        tracemalloc.stop()
    await pool.stop(1_000)
    # The window's instants of death are what may grow: a float each.
    assert held[1_000] - held[200] < 800 * 48 + 20_000


@pytest.mark.full
async def test_thirty_real_crashes(tmp_path: Path) -> None:
    deaths: list[float] = []
    starts: list[float] = []
    own = psutil.Process()
    others = own.children()  # of the tests before
    held: list[tuple[int, int]] = []

    def publish(event: Event) -> None:
        if isinstance(event, ChildDied):
            deaths.append(time.monotonic())
            gc.collect()
            held.append((own.memory_info().rss, own.num_fds()))

    async def noting(label: str, on_frames: OnFrames, on_output: OnOutput | None) -> Child:
        starts.append(time.monotonic())
        return await spawn(label, on_frames, on_output)

    policy = RestartPolicy(max_restarts=29, delay_ms=0, backoff=Backoff("exponential", 10, 160, "none"))
    spec = ChildSpec("tests.pools.workers:crash_until", (str(tmp_path / "tries"), 1_000))
    pool = ProcessPool(
        spec,
        PoolOptions(name="p", size=1, restart=policy),
        clock=SystemClock(),
        publish=publish,
        spawn=noting,
        draw=lambda: 1.0,
    )
    pool.start()
    with pytest.raises(PoolFailed, match=r"30 children died .* exit code 9 while building"):
        await pool.wait_ready()
    await pool.stop(5_000)
    assert (len(starts), len(deaths), pool.stats().restarts) == (30, 30, 29)
    assert (tmp_path / "tries").read_text() == "x" * 30
    waits = [0.0, 0.01, 0.02, 0.04, 0.08] + [0.16] * 24
    gaps = [start - death for start, death in zip(starts[1:], deaths, strict=False)]
    for gap, wait in zip(gaps, waits, strict=True):
        assert wait - 0.002 <= gap < wait + 3.0
    assert held[-1][0] - held[4][0] < 3_000_000
    assert held[-1][1] == held[4][1]
    assert own.children() == others
