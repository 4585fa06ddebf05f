"""A store with faults: which call fails, whether it has happened, and that everything else goes through."""

from __future__ import annotations

import asyncio

import pytest

from workfleet.clock import SystemClock
from workfleet.errors import StoreUnavailable
from workfleet.model.jobs import JobRecord, JobState
from workfleet.model.outcome import Outcome, Settlement
from workfleet.ports.jobs import ClaimRequest, Want
from workfleet.ports.stores import Store
from workfleet.stores.memory.store import MemoryStore
from workfleet.testing import FaultyStore

WANT = (Want("q", 10),)


class Sleeps(SystemClock):
    """Sleeping takes no time and is noted."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


@pytest.fixture
def inner() -> Store:
    return MemoryStore("test", SystemClock())


def job(number: int) -> JobRecord:
    return JobRecord(id=f"job-{number}", queue="q", name="n")


async def ids(store: Store) -> list[str]:
    return [record.id for record in await store.jobs.get([f"job-{n}" for n in range(5)]) if record is not None]


async def test_the_nth_call_of_a_name_fails_and_no_other(inner: Store) -> None:
    store = FaultyStore(inner)
    store.fail("jobs.enqueue", number=2)
    await store.jobs.enqueue([job(0)])
    with pytest.raises(StoreUnavailable, match=r"was not carried out .*jobs.enqueue 2"):
        await store.jobs.enqueue([job(1)])
    await store.jobs.enqueue([job(2)])
    assert await ids(inner) == ["job-0", "job-2"]
    assert store.calls == ["jobs.enqueue"] * 3
    assert store.failed == ["jobs.enqueue 2 before"]


async def test_after_the_commit_the_reply_is_lost(inner: Store) -> None:
    store = FaultyStore(inner)
    store.fail("jobs.enqueue", when="after")
    with pytest.raises(StoreUnavailable, match="the reply was lost"):
        await store.jobs.enqueue([job(0)])
    assert await ids(inner) == ["job-0"]


@pytest.mark.parametrize(("when", "there"), [("before", []), ("after", ["job-0"])])
async def test_a_call_that_hangs_fails_when_its_time_is_over(inner: Store, when: str, there: list[str]) -> None:
    clock = Sleeps()
    store = FaultyStore(inner, clock=clock)
    store.fail("jobs.enqueue", when=when, hang="5s")  # type: ignore[arg-type]
    with pytest.raises(StoreUnavailable):
        await store.jobs.enqueue([job(0)])
    assert clock.slept == [5.0]
    assert await ids(inner) == there


async def test_a_caller_that_gives_up_is_cancelled_and_what_it_asked_for_has_happened(inner: Store) -> None:
    store = FaultyStore(inner)
    store.fail("jobs.enqueue", when="after", hang="1h")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(store.jobs.enqueue([job(0)]), 0.01)
    assert await ids(inner) == ["job-0"]


async def test_a_settle_that_claims_has_a_name_of_its_own(inner: Store) -> None:
    store = FaultyStore(inner)
    await store.jobs.enqueue([job(0), job(1)])
    first, second = await store.jobs.claim(ClaimRequest("w", "t1", 30_000, WANT))
    done = Outcome(state=JobState.COMPLETED, code="completed", result=b"null", attempts_made=1)
    await store.jobs.settle([Settlement(first.claim, done)])
    await store.jobs.settle([Settlement(first.claim, done)], None)
    await store.jobs.settle([Settlement(second.claim, done)], ClaimRequest("w", "t2", 30_000, WANT))
    await store.jobs.settle([Settlement(second.claim, done)], then=ClaimRequest("w", "t3", 30_000, WANT))
    assert store.calls[2:] == ["jobs.settle"] * 2 + ["jobs.settle+claim"] * 2


async def test_every_part_and_the_stores_own_calls_can_fail(inner: Store) -> None:
    store = FaultyStore(inner)
    calls = {
        "now_ms": store.now_ms,
        "check": store.check,
        "fleet.workers": store.fleet.workers,
        "locks.held": store.locks.held,
        "keys.get": lambda: store.keys.get("k"),
        "schedules.all": store.schedules.all,
        "queues.all": store.queues.all,
        "jobs.counts": store.jobs.counts,
    }
    for name, call in calls.items():
        store.fail(name)
        with pytest.raises(StoreUnavailable):
            await call()
        await call()
    assert store.failed == [f"{name} 1 before" for name in calls]
    assert (store.url, store.app) == (inner.url, inner.app)


async def test_the_same_seed_fails_the_same_calls(inner: Store) -> None:
    async def failures(seed: int) -> list[str]:
        store = FaultyStore(inner, clock=Sleeps())
        store.fail_randomly(0.3, seed=seed, hang="1s")
        for _ in range(100):
            try:
                await store.now_ms()
            except StoreUnavailable:
                pass
        store.recover()
        for _ in range(20):
            await store.now_ms()
        return store.failed

    first = await failures(1)
    assert first == await failures(1) != await failures(2)
    assert 15 <= len(first) <= 45
    assert {entry.split()[2] for entry in first} == {"before", "after"}
