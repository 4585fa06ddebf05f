"""A thousand crashes without a process: an injected spawner and clock, the policy followed exactly."""

from __future__ import annotations

import asyncio

import pytest

from workfleet.errors import PoolFailed
from workfleet.events import ChildDied, Event
from workfleet.model.policy import Backoff
from workfleet.pools import wire
from workfleet.pools.link import OnFrame
from workfleet.pools.options import ChildSpec, PoolOptions, RestartPolicy
from workfleet.pools.output import OnOutput
from workfleet.pools.pool import ProcessPool
from workfleet.pools.process import Child, Exit


class JumpingClock:
    """Time passes only by waiting, at once."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.waits: list[float] = []

    def now_ms(self) -> int:
        return round(self.now * 1000)

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


class Doomed:
    """A child that dies of being told what to be."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.ended: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()

    def send(self, pieces: list[bytes]) -> None:
        if wire.HEADER.unpack_from(pieces[0])[1] == wire.BOOT:
            self.ended.set_result(Exit(1, "exit code 1", ""))

    def kill(self) -> None: ...
    def look(self) -> None: ...

    def begun(self) -> int:
        return 0

    def phase(self) -> str:
        return "importing"


async def test_a_thousand_restarts_and_not_one_more() -> None:
    clock = JumpingClock()
    events: list[Event] = []
    started: list[Child] = []

    async def spawn(label: str, on_frame: OnFrame, on_output: OnOutput | None) -> Child:
        started.append(Doomed(len(started)))
        return started[-1]

    policy = RestartPolicy(
        max_restarts=1_000, window_ms=10**9, delay_ms=500, backoff=Backoff("exponential", 1_000, 30_000)
    )
    pool = ProcessPool(
        ChildSpec("m:f"),
        PoolOptions(name="p", size=1, restart=policy, health_interval_ms=None, sweep_interval_ms=None),
        clock=clock,
        publish=events.append,
        spawn=spawn,
        draw=lambda: 1.0,
    )
    pool.start()
    waiting = asyncio.create_task(pool.call("m"))
    with pytest.raises(
        PoolFailed, match="1001 children died and none completed a call; the last: exit code 1 while imp"
    ):
        await waiting
    assert len(started) == 1_001
    assert len([event for event in events if isinstance(event, ChildDied)]) == 1_001
    assert clock.waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0] + [30.0] * 994
    assert (pool.stats().restarts, pool.stats().state, pool.stats().queued) == (1_000, "failed", 0)
    assert await pool.stop(1_000) == 0
