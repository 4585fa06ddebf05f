"""Between its bounds a pool grows quickly, shrinks slowly, and comes to rest under a steady load."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.pools.conftest import MakePool
from tests.pools.support import wait_until
from tests.pools.workers import Basic
from workfleet.errors import UsageError
from workfleet.events import PoolScaled
from workfleet.pools.autoscale import Autoscaler, Load, Scaling
from workfleet.pools.options import ChildSpec
from workfleet.testing import TestClock

WAITED = "calls waited longer than 0.5 s"
BUSY = "80% of its children were busy"
QUIET = "fewer were enough for 60 s"


@dataclass
class Simulated:
    """A pool whose children each work on a call for `seconds`, looked at every half second."""

    scaling: Scaling
    size: int = 1
    seconds: float = 1.0
    starting: float = 0.0
    """How long a new child takes to be ready."""
    now: float = 0.0
    calls: int = 0
    queue: list[int] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    births: list[float] = field(default_factory=list)
    sizes: list[tuple[float, int, str]] = field(default_factory=list)

    def look(self, arriving: int) -> None:
        self.now += 0.5
        self.ends = [end for end in self.ends if end > self.now]
        for _ in range(arriving):
            self.calls += 1
            self.queue.append(self.calls)
        ready = self.size - sum(1 for birth in self.births if birth > self.now)
        while self.queue and len(self.ends) < ready:
            self.queue.pop(0)
            self.ends.append(self.now + self.seconds)
        waiting = (self.queue[0], self.queue[-1]) if self.queue else None
        load = Load(self.size, ready, len(self.ends), len(self.queue), waiting)
        verdict = self.scaling.judge(load, self.now)
        if verdict is not None:
            self.births += [self.now + self.starting] * (verdict.size - self.size)
            self.size = verdict.size
            self.sizes.append((self.now, verdict.size, verdict.why))

    def run(self, seconds: float, arriving_per_second: float) -> None:
        owed = 0.0
        for _ in range(round(seconds * 2)):
            owed += arriving_per_second / 2
            self.look(int(owed))
            owed -= int(owed)


def test_a_burst_is_met_within_seconds_and_never_beyond_the_most() -> None:
    pool = Simulated(Scaling(1, 7), seconds=5)
    pool.run(2, 40)
    assert [size for _, size, _ in pool.sizes] == [2, 4, 7]
    assert {why for *_, why in pool.sizes} == {WAITED}
    pool.run(600, 40)
    assert pool.size == 7


def test_no_more_children_than_calls_that_wait() -> None:
    pool = Simulated(Scaling(1, 20), size=6, seconds=100)
    pool.run(0.5, 16)  # 8 calls, 2 wait
    pool.run(0.5, 0)
    assert pool.sizes == [(1.0, 8, WAITED)]


def test_it_waits_for_its_new_children_before_it_wants_more() -> None:
    pool = Simulated(Scaling(1, 8), seconds=60, starting=4)
    pool.run(4.5, 40)
    assert pool.sizes == [(1.0, 2, WAITED)]
    pool.run(1, 0)
    assert pool.sizes == [(1.0, 2, WAITED), (5.0, 4, WAITED)]


def test_children_that_never_become_ready_do_not_keep_it_small_for_ever() -> None:
    pool = Simulated(Scaling(1, 4), seconds=1000, starting=10_000)
    pool.run(30, 2)
    assert [at for at, *_ in pool.sizes] == [1.5, 11.5]


def test_nearly_all_busy_for_some_time_is_a_reason_by_itself() -> None:
    pool = Simulated(Scaling(1, 4), seconds=1000)
    pool.look(1)
    pool.run(2, 0)
    assert pool.sizes == []
    pool.run(0.5, 0)
    assert pool.sizes == [(3.0, 2, BUSY)]
    pool.run(60, 0)
    assert pool.size == 2  # one of two is not nearly all


def test_it_shrinks_one_by_one_and_slowly_to_the_least() -> None:
    pool = Simulated(Scaling(2, 8), size=6)
    pool.run(600, 0)
    assert pool.sizes == [(60.5, 5, QUIET), (121.0, 4, QUIET), (181.5, 3, QUIET), (242.0, 2, QUIET)]


def test_a_single_busy_moment_keeps_the_size() -> None:
    pool = Simulated(Scaling(1, 8), size=4)
    for _ in range(20):
        pool.run(50, 0)
        pool.look(4)
    assert pool.sizes == []


@pytest.mark.parametrize("per_second", [0.2, 0.9, 1.5, 2.0, 3.3, 4.0, 5.5, 7.5])
@pytest.mark.parametrize("first", [1, 10])
def test_under_a_steady_load_it_comes_to_rest(per_second: float, first: int) -> None:
    pool = Simulated(Scaling(1, 10), size=first)
    pool.run(900, per_second)
    settled, changes = pool.size, len(pool.sizes)
    pool.run(3_600, per_second)
    assert (pool.size, len(pool.sizes)) == (settled, changes)
    assert per_second <= settled <= 2 * math.ceil(per_second) + 1
    directions = {(after > before) for (_, before, _), (_, after, _) in zip(pool.sizes, pool.sizes[1:], strict=False)}
    assert len(directions) <= 1  # it went up, or down, but not to and fro


def test_a_size_that_somebody_ordered_is_a_new_beginning() -> None:
    pool = Simulated(Scaling(1, 8), size=4)
    pool.run(59, 0)
    pool.size = 6
    pool.run(59, 0)
    assert pool.sizes == []
    pool.run(2, 0)
    assert [size for _, size, _ in pool.sizes] == [5]


async def test_the_service_looks_every_half_second_and_leaves_a_pool_that_stops_alone() -> None:
    clock = TestClock(0)
    loads: list[Load | None] = [Load(1, 1, 1, 1, (1, 1)), None, Load(1, 1, 1, 1, (1, 1)), Load(2, 2, 0, 0, None)]
    ordered: list[tuple[int, str]] = []

    def scale(size: int, why: str) -> None:
        ordered.append((size, why))

    serving = asyncio.create_task(Autoscaler(1, 4, lambda: loads.pop(0), scale, clock).serve())
    for look in range(1, 5):
        await wait_until(lambda: len(clock.sleepers) == 1)
        assert len(loads) == 5 - look
        clock.move_to(look * 500)
    await wait_until(lambda: not loads)
    assert ordered == [(2, WAITED)]
    serving.cancel()


async def test_a_real_pool_grows_when_calls_wait_and_says_why(make_pool: MakePool, tmp_path: Path) -> None:
    made = make_pool(ChildSpec.of(Basic), size=1, min_size=1, max_size=2)
    gate = tmp_path / "gate"
    calls = [asyncio.create_task(made.pool.call("wait_for", (str(gate),))) for _ in range(2)]
    await wait_until(lambda: made.pool.stats().busy == 2, 30)
    assert made.told(PoolScaled) == [PoolScaled(pool="test", old=1, new=2, why=WAITED)]
    gate.touch()
    assert await asyncio.gather(*calls) == ["done", "done"]


async def test_an_ordered_size_must_lie_between_the_bounds(make_pool: MakePool) -> None:
    pool = make_pool(ChildSpec.of(Basic), size=1, min_size=1, max_size=3).pool
    for size in (0, 4):
        with pytest.raises(UsageError, match="cannot have"):
            pool.scale(size)
    with pytest.raises(UsageError, match="scales itself between min_size=1 and max_size=3: it cannot have 4 children"):
        pool.scale(4)
    pool.scale(2)
    assert pool.stats().size == 2
