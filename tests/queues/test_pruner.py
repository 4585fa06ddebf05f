"""The clean-up of finished jobs: when it comes, who does it, and that it leaves the store to others in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.queues.rig import until
from workfleet.clock import SystemClock
from workfleet.model.jobs import JobRecord, JobState
from workfleet.model.outcome import Ended, RunPolicy, Settlement, decide
from workfleet.ports.clock import Clock
from workfleet.ports.jobs import ClaimRequest, PruneRule, Want
from workfleet.ports.stores import Store
from workfleet.queues import pruner as module
from workfleet.queues.pruner import Pruner
from workfleet.stores.open import open_store
from workfleet.testing import FaultyStore
from workfleet.testing.contracts.harness import ManualClock

RULES = [PruneRule(JobState.COMPLETED, count=1)]

Opened = Callable[[], Awaitable[FaultyStore]]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "sqlite"])
async def opened(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Opened]:
    """Opens one store as one worker more does."""
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    stores: list[Store] = []

    async def open_another() -> FaultyStore:
        if not stores or request.param == "sqlite":
            stores.append(await open_store(url, app="test", clock=clock, create=True))
        return FaultyStore(stores[-1], clock=clock)

    yield open_another
    for store in stores:
        await store.close()


@asynccontextmanager
async def serving(store: Store, clock: Clock, ended: Callable[[], int] = lambda: 0) -> AsyncIterator[None]:
    serving = asyncio.create_task(Pruner(store, clock, RULES, ended=ended, ledger_age_ms=10**12).serve())
    yield
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


async def complete(store: Store, count: int) -> None:
    await store.jobs.enqueue([JobRecord(id=f"j{n}", queue="q", name="work") for n in range(count)])
    for record in await store.jobs.claim(ClaimRequest("w", "t", 60_000, (Want("q", count),))):
        outcome = decide(Ended(kind="returned"), record, RunPolicy(), now_ms=0, draw=0)
        await store.jobs.settle([Settlement(record.claim, outcome)])


async def completed(store: Store) -> int:
    return (await store.jobs.counts())["q"].completed


def rounds(store: FaultyStore) -> int:
    """Rounds that are over. The key is freed after each."""
    return store.calls.count("keys.delete")


async def asleep(clock: ManualClock, count: int = 1) -> None:
    """Wait until so many sleep: pruners that have done what they had to, and calls that hang."""
    await until(lambda: sum(not woken.done() for woken in clock._sleepers) == count)


async def test_a_round_each_minute(opened: Opened, clock: ManualClock) -> None:
    store = await opened()
    await complete(store, 3)
    async with serving(store, clock):
        await asleep(clock)
        assert (rounds(store), await completed(store)) == (1, 1)
        for expected in [1] * 11 + [2]:
            await clock.advance(5_000)
            await asleep(clock)
            assert rounds(store) == expected


async def test_where_many_jobs_end_it_comes_sooner(opened: Opened, clock: ManualClock) -> None:
    store, ended = await opened(), [7_000]
    async with serving(store, clock, lambda: ended[0]):
        await asleep(clock)
        for more, expected in ((4_999, 1), (1, 2), (4_999, 2), (1, 3)):
            ended[0] += more
            await clock.advance(5_000)
            await asleep(clock)
            assert rounds(store) == expected


async def test_one_worker_at_a_time(opened: Opened, clock: ManualClock) -> None:
    one, other = await opened(), await opened()
    one.fail("jobs.prune", hang="50s")
    async with serving(one, clock):
        await asleep(clock)
        async with serving(other, clock):
            await asleep(clock, 2)
            assert (rounds(one), "jobs.prune" in other.calls) == (0, False)
            await clock.advance(50_000)
            await asleep(clock, 2)
            assert (rounds(one), "jobs.prune" in other.calls) == (1, False)
            await clock.advance(10_000)
            await asleep(clock, 2)
            assert (rounds(one), rounds(other)) == (1, 1)


async def test_one_that_was_killed_in_a_round_keeps_nobody_from_it(opened: Opened, clock: ManualClock) -> None:
    killed, store = await opened(), await opened()
    await complete(store, 3)
    killed.fail("jobs.prune", hang="1h")
    killed.fail("keys.delete")  # as if it had never come to it
    async with serving(killed, clock):
        await asleep(clock)
    async with serving(store, clock):
        await asleep(clock)
        assert (rounds(store), await completed(store)) == (0, 3)
        await clock.advance(60_000)
        await asleep(clock)
        assert (rounds(store), await completed(store)) == (1, 1)


async def test_one_that_is_stopped_in_a_round_makes_room_at_once(opened: Opened, clock: ManualClock) -> None:
    stopped, store = await opened(), await opened()
    stopped.fail("jobs.prune", hang="1h")
    async with serving(stopped, clock):
        await asleep(clock)
    async with serving(store, clock):
        await asleep(clock)
        assert (rounds(stopped), rounds(store)) == (1, 1)


class Ticking(SystemClock):
    """Whoever reads it finds it a tenth of a second later. Notes how long is slept; a long sleep never ends."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        self.now_s += 0.1
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 3))
        await super().sleep(0 if seconds < 1 else 3_600)


async def test_it_rests_after_each_step(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BATCH", 10)
    store, clock = await opened(), Ticking()
    await complete(store, 26)
    async with serving(store, clock):
        await until(lambda: len(clock.slept) == 3)
    assert store.calls.count("jobs.prune") == 3
    assert clock.slept == [0.025, 0.025, 5.0]


async def test_a_long_round_stays_its_own(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BATCH", 1)
    store, clock = await opened(), Ticking()
    await complete(store, 251)
    async with serving(store, clock):
        await until(lambda: rounds(store) == 1)
    # Two readings of the clock a step; the key is renewed after more than 20 s.
    assert store.calls.count("jobs.prune") == 251
    assert store.calls.count("keys.replace") == 2
