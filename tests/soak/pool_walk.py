"""A seeded random walk over one pool: calls, streams, cancellations, kills, sizes, recycling, and at last its end.

Each call knows what may come of it. What else comes, what comes twice, what never ends and what is left is a problem.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.pools.kills import inventory
from tests.pools.kills.inventory import Inventory
from tests.pools.kills.victims import LARGE, Victim
from workfleet.clock import SystemClock
from workfleet.errors import CallTimeout, ChildDied, MemoryLimitExceeded, PoolBusy, PoolError, RemoteError
from workfleet.events import Event, PoolFailed
from workfleet.model.policy import Backoff
from workfleet.pools.options import ChildSpec, PoolOptions, RestartPolicy
from workfleet.pools.pool import ProcessPool

SIZE = 3
OPTIONS = PoolOptions(
    name="soak",
    size=SIZE,
    queue_limit=300,
    memory_bytes=400_000_000,
    call_timeout_ms=60_000,
    graceful_timeout_ms=3_000,
    cancel_grace_ms=200,
    health_interval_ms=500,
    health_timeout_ms=20_000,
    max_calls=500,
    # The walk kills far more than a crash loop would; a pool that gives up would have nothing to show.
    restart=RestartPolicy(max_restarts=100_000, delay_ms=0, backoff=Backoff("fixed", 10, 10, "none")),
)
_PATIENCE_S = 60.0
"""For what has to come, on a slow machine."""

Expected = tuple[type[BaseException], ...]
_KILLED: Expected = (ChildDied,)


@dataclass
class Tally:
    """What was done and what came of it."""

    done: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    lives: int = 0
    rss_bytes: list[int] = field(default_factory=list)
    """Of this process after each life."""


class Walk:
    """One life of one pool. `folder` is empty at first."""

    def __init__(self, folder: Path, random: Random, tally: Tally) -> None:
        self._folder, self._random, self._tally = folder, random, tally
        self._events: list[Event] = []
        self._pool = ProcessPool(
            ChildSpec.of(Victim), OPTIONS, clock=SystemClock(), publish=self._events.append, draw=random.random
        )
        self._number = 0
        self._calls: dict[asyncio.Task[Any], tuple[str, Expected]] = {}
        self._stopped: dict[int, float] = {}
        """Children that stand still, and when that ends."""
        self._may_refuse = False
        """Whether the pool is being ended: it may refuse calls."""
        self._steps: dict[Callable[[], None], int] = {
            self._once: 40, self._many: 10, self._stream: 6, self._stream_left: 4, self._large: 2, self._leave: 3,
            self._exit: 3, self._time_out: 3, self._cancel: 8, self._grow: 1, self._fork: 2, self._print: 1,
            self._kill: 6, self._kill_all: 1, self._stand_still: 3, self._scale: 3, self._recycle: 2,
        }  # fmt: skip

    async def live(self, seconds: float, *, drain: bool) -> None:
        """Walks so long, looks whether the pool is whole, walks on a little and ends it under load."""
        before = inventory.taken()
        self._pool.start()
        await self._walk(seconds)
        await self._settle("at rest")
        await self._look_whole()
        await self._walk(min(seconds / 4, 1.0))
        await self._end(drain=drain)
        await self._settle("at the end")
        self._look_once()
        await self._look_empty(before)
        self._tally.lives += 1

    async def _walk(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        steps, weights = list(self._steps), list(self._steps.values())
        while time.monotonic() < until:
            (step,) = self._random.choices(steps, weights)
            self._tally.done[step.__name__.removeprefix("_").replace("_", " ")] += 1
            step()
            self._move_on()
            pause = self._random.choice((0, 0, 0.001, 0.01))
            await asyncio.sleep(pause)
            while len(self._calls) > 200:  # let some of them end
                await asyncio.wait(self._calls, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)
                self._move_on()

    # Calls.

    def _start(self, what: str, call: Awaitable[Any], may_end_with: Expected) -> asyncio.Task[Any]:
        task = asyncio.ensure_future(call)
        self._calls[task] = what, may_end_with
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        what, expected = self._calls.pop(task)
        if task.cancelled():
            self._tally.ends["cancelled"] += 1
            if asyncio.CancelledError not in expected:
                self._tally.problems.append(f"{what}: cancelled, but nobody asked for it")
            return
        error = task.exception()
        self._tally.ends["a value" if error is None else type(error).__name__] += 1
        refused = isinstance(error, PoolBusy) or (self._may_refuse and isinstance(error, PoolError))
        if error is not None and not refused and not isinstance(error, expected):
            self._tally.problems.append(f"{what}: {error!r}")

    def _once(self) -> None:
        self._number += 1
        number = self._number

        async def once() -> None:
            answer = await self._pool.call("once", (str(self._folder), number))
            if answer != number:
                raise AssertionError(f"{answer} is not {number}")

        self._start(f"once {number}", once(), _KILLED)

    def _many(self) -> None:
        for _ in range(30):
            self._once()

    def _stream(self) -> None:
        count = self._random.randrange(1, 40)

        async def stream() -> None:
            got = [item async for item in self._pool.stream("count_to", (count,))]
            if got != list(range(count)):
                raise AssertionError(f"{got} instead of {count} items")

        self._start("stream", stream(), _KILLED)

    def _stream_left(self) -> None:
        async def stream() -> None:
            expected = 0
            async with aclosing(self._pool.stream("count_for_ever", (os.devnull,))) as items:  # type: ignore[type-var]
                async for item in items:
                    if item != expected:
                        raise AssertionError(f"{item} instead of {expected}")
                    expected += 1
                    if expected == 20:
                        break

        self._start("stream that is left", stream(), _KILLED)

    def _large(self) -> None:
        async def large() -> None:
            length = await self._pool.call("length", (bytes(LARGE // 4),))
            if length != LARGE // 4:
                raise AssertionError(f"{length} bytes arrived")

        self._start("large", large(), _KILLED)

    def _leave(self) -> None:
        self._start("leave", self._pool.call("leave", (self._random.choice((0, 1)),)), _KILLED)

    def _exit(self) -> None:
        self._start("exit", self._pool.call("sys_exit", (0,)), (RemoteError, *_KILLED))

    def _time_out(self) -> None:
        method = self._random.choice(("swallow", "swallow_async", "swallow_spinning"))
        call = self._pool.call(method, (os.devnull,), timeout_ms=self._random.randrange(1, 300))
        self._start("time out", call, (CallTimeout, *_KILLED))

    def _cancel(self) -> None:
        """One that may wait, run or be done already."""
        method = self._random.choice(("swallow", "swallow_async", "pid", "hang"))
        arguments = () if method == "pid" else (os.devnull,)
        call = self._start("cancel", self._pool.call(method, arguments), (asyncio.CancelledError, *_KILLED))
        asyncio.get_running_loop().call_later(self._random.choice((0, 0, 0.01, 0.1)), call.cancel)

    def _grow(self) -> None:
        self._start("grow", self._pool.call("grow", (900, 1.0)), (MemoryLimitExceeded, *_KILLED))

    def _fork(self) -> None:
        self._start("fork", self._pool.call("fork_and_stay", (os.devnull,)), _KILLED)

    def _print(self) -> None:
        self._start("print", self._pool.call("print_lines", (2_000,)), _KILLED)

    # Attacks and steering.

    def _kill(self) -> None:
        if pids := self._pool.stats().pids:
            self._signal(self._random.choice(pids), signal.SIGKILL)

    def _kill_all(self) -> None:
        for pid in self._pool.stats().pids:
            self._signal(pid, signal.SIGKILL)

    def _stand_still(self) -> None:
        if pids := self._pool.stats().pids:
            pid = self._random.choice(pids)
            self._signal(pid, signal.SIGSTOP)
            self._stopped[pid] = time.monotonic() + self._random.random() / 2

    def _move_on(self) -> None:
        """What has stood still long enough goes on, or dies."""
        for pid, until in list(self._stopped.items()):
            if until <= time.monotonic():
                del self._stopped[pid]
                if pid in self._pool.stats().pids:
                    self._signal(pid, self._random.choice((signal.SIGCONT, signal.SIGCONT, signal.SIGKILL)))

    def _signal(self, pid: int, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)

    def _scale(self) -> None:
        self._pool.scale(self._random.randrange(1, SIZE + 3))

    def _recycle(self) -> None:
        self._pool.recycle()

    async def _end(self, *, drain: bool) -> None:
        self._may_refuse = True
        for _ in range(50):
            self._once()
        if drain:
            draining = asyncio.create_task(self._pool.drain(2_000))
            self._once()
            while not draining.done():
                await asyncio.sleep(0.01)
                self._move_on()
        stopping = asyncio.create_task(self._pool.stop(2_000))
        self._once()
        while not stopping.done():
            await asyncio.sleep(0.01)
            self._move_on()
        await stopping

    # Looks.

    async def _settle(self, when: str) -> None:
        """Every call has ended."""
        until = time.monotonic() + _PATIENCE_S
        while self._calls and time.monotonic() < until:
            await asyncio.wait(self._calls, timeout=0.1)
            self._move_on()
        while self._stopped:
            await asyncio.sleep(0.05)
            self._move_on()
        for what, _ in self._calls.values():
            self._tally.problems.append(f"{what} has not ended {when}: {self._pool.stats()}")

    async def _look_whole(self) -> None:
        self._pool.scale(SIZE)
        self._pool.recycle()  # a copy that a method has made of its child ends with it
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._pool.wait_ready()
                while inventory.descendants() != set(self._pool.stats().pids):
                    await asyncio.sleep(0.02)
        except TimeoutError:
            self._tally.problems.append(f"not whole: {inventory.descendants()} run, {self._pool.stats()}")
        stats = self._pool.stats()
        if (stats.size, stats.ready, stats.busy, stats.queued, stats.state) != (SIZE, SIZE, 0, 0, "running"):
            self._tally.problems.append(f"not whole: {stats}")
        self._tally.problems += [str(event) for event in self._events if isinstance(event, PoolFailed)]

    def _look_once(self) -> None:
        """A call that runs twice fails by itself; here: no more ran than were made."""
        ran = len(os.listdir(self._folder))
        if ran > self._number:
            self._tally.problems.append(f"{ran} calls ran of {self._number}")

    async def _look_empty(self, before: Inventory) -> None:
        until = time.monotonic() + _PATIENCE_S
        while (now := inventory.taken()) != before and time.monotonic() < until:
            await asyncio.sleep(0.05)
        if now != before:
            self._tally.problems.append(f"left behind: {now} instead of {before}")
