"""Keeping and taking over on real stores, with real leases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.supervision.fakes import Published, until
from workfleet.clock import SystemClock
from workfleet.events import JobRecovered
from workfleet.ids import new_token
from workfleet.model.fleet import LockGrant, WorkerRecord
from workfleet.model.jobs import JobRecord, JobState
from workfleet.ports.jobs import ClaimRequest, TakeOver, Want
from workfleet.ports.stores import Store
from workfleet.queues.reaper import Reaper
from workfleet.queues.recovery import recover
from workfleet.stores.open import open_store
from workfleet.supervision.board import Board
from workfleet.supervision.identity import is_alive, own_identity
from workfleet.supervision.keeper import Keeper
from workfleet.supervision.lock_keeper import LockKeeper

CLOCK = SystemClock()


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    url = "memory://" if request.param == "memory" else f"sqlite://{tmp_path}/store.db"
    opened = await open_store(url, app="test", clock=CLOCK, create=True)
    yield opened
    await opened.close()


async def claim(store: Store, *ids: str, worker: str, lease_ms: int) -> list[JobRecord]:
    await store.jobs.enqueue([JobRecord(id=each, queue="q", name="n") for each in ids])
    claimed = await store.jobs.claim(ClaimRequest(worker, new_token(), lease_ms, (Want("q", len(ids)),)))
    assert [record.id for record in claimed] == list(ids)
    return claimed


async def states(store: Store, *ids: str) -> list[tuple[JobState, int]]:
    return [(record.state, record.crashes) for record in await store.jobs.get(ids) if record is not None]


async def lease_end(store: Store, job_id: str) -> int:
    (record,) = await store.jobs.get([job_id])
    assert record is not None
    return record.lease_until_ms or 0


async def test_a_dead_workers_jobs_are_taken_over_whatever_is_left_of_their_lease(store: Store) -> None:
    await claim(store, "a", "b", worker="dead", lease_ms=600_000)
    await claim(store, "c", worker="living", lease_ms=600_000)
    published = Published()
    request = TakeOver("supervisor", new_token(), 30_000, limit=1, workers=("dead",))
    how = "killed by SIGKILL"
    assert await recover(store.jobs, request, how, max_crashes=1, clock=CLOCK, publish=published.append) == 2
    assert await states(store, "a", "b", "c") == [(JobState.FAILED, 1), (JobState.FAILED, 1), (JobState.ACTIVE, 0)]
    assert [event.id for event in published.of(JobRecovered)] == ["a", "b"]
    (record,) = await store.jobs.get(["a"])
    assert record is not None
    assert record.failure is not None
    assert (record.failure.code, record.failure.message, record.history[0].worker) == ("crashed", how, "dead")


async def test_what_was_given_back_runs_again_as_if_nothing_had_happened(store: Store) -> None:
    await claim(store, "a", worker="w", lease_ms=600_000)
    request = TakeOver("supervisor", new_token(), 30_000, workers=("w",))
    await recover(store.jobs, request, "x", max_crashes=1, clock=CLOCK, publish=Published().append, given_back=True)
    (record,) = await store.jobs.get(["a"])
    assert record is not None
    assert (record.state, record.crashes, record.attempts_made, record.history) == (JobState.WAITING, 0, 0, ())


async def test_a_kept_lease_does_not_expire_and_an_unkept_one_does(store: Store) -> None:
    kept, unkept = await claim(store, "kept", "unkept", worker="w", lease_ms=400)
    board = Board.create(slots=4, clock=CLOCK)
    board.put(kept.claim)
    keeper = Keeper(lambda: [board], store.jobs, lease_ms=400, clock=CLOCK, publish=Published().append)
    reaper = Reaper(
        store,
        worker="me",
        is_alive=is_alive,
        lease_ms=400,
        poll_ms=50,
        max_crashes=3,
        clock=CLOCK,
        publish=Published().append,
    )
    services = [asyncio.create_task(each.serve()) for each in (keeper, reaper)]
    async with asyncio.timeout(10):
        while (await states(store, unkept.id))[0][0] is JobState.ACTIVE:
            await asyncio.sleep(0.05)
        # Kept for two leases longer.
        while (await lease_end(store, kept.id)) < (kept.lease_until_ms or 0) + 800:
            await asyncio.sleep(0.05)
    assert await states(store, kept.id, unkept.id) == [(JobState.ACTIVE, 0), (JobState.WAITING, 1)]
    for service in services:
        service.cancel()
    await asyncio.gather(*services, return_exceptions=True)
    board.close()


async def test_a_claim_that_was_taken_away_is_told_to_be_lost(store: Store) -> None:
    (record,) = await claim(store, "a", worker="w", lease_ms=300)
    board, lost = Board.create(slots=4, clock=CLOCK), list[str]()
    board.put(record.claim)
    await store.jobs.take_over(TakeOver("thief", new_token(), 30_000, workers=("w",)))
    keeper = Keeper(
        lambda: [board],
        store.jobs,
        lease_ms=300,
        clock=CLOCK,
        publish=Published().append,
        on_lost=lambda at, entry: lost.append(entry.name),
    )
    keeping = asyncio.create_task(keeper.serve())
    await until(lambda: lost)
    assert lost == ["a"]
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    board.close()


async def test_locks_are_kept_as_long_as_they_are_on_the_board(store: Store) -> None:
    taken = await store.locks.acquire("kept", "w:1", 1_000)
    assert isinstance(taken, LockGrant)
    await store.locks.acquire("unkept", "w:2", 1_000)
    board = Board.create(slots=4, clock=CLOCK)
    slot = board.put_lock("kept", "w:1", ttl_ms=1_000)
    keeper = LockKeeper(lambda: [board], store.locks, clock=CLOCK, publish=Published().append)
    keeping = asyncio.create_task(keeper.serve())
    async with asyncio.timeout(10):
        while (held := {grant.name: grant for grant in await store.locks.held()}).keys() != {"kept"}:
            await asyncio.sleep(0.05)
    assert held["kept"].expires_ms > taken.expires_ms
    await store.locks.release("kept", None)
    await until(lambda: board.renewed_ms(slot) == -1)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    board.close()


async def test_at_the_start_the_dead_of_this_machine_are_buried(store: Store) -> None:
    """A process that is gone: this one's pid with another start time."""
    me = own_identity()
    gone = type(me)(me.host, me.boot_id, me.pid, "0")
    await store.fleet.register(WorkerRecord(id="dead", identity=gone))
    await store.fleet.register(WorkerRecord(id="living", identity=me))
    await claim(store, "a", worker="dead", lease_ms=600_000)
    await claim(store, "b", worker="living", lease_ms=600_000)
    await store.locks.acquire("nightly", "dead:1", 3_600_000)
    await store.locks.acquire("other", "living:1", 3_600_000)
    reaper = Reaper(
        store,
        worker="me",
        is_alive=is_alive,
        lease_ms=30_000,
        poll_ms=10_000,
        max_crashes=3,
        clock=CLOCK,
        publish=Published().append,
    )
    assert await reaper.bury() == 1
    assert await states(store, "a", "b") == [(JobState.WAITING, 1), (JobState.ACTIVE, 0)]
    assert [record.id for record in await store.fleet.workers()] == ["living"]
    assert [grant.name for grant in await store.locks.held()] == ["other"]
    assert await reaper.bury() == 0
