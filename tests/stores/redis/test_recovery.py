"""A store that works through the server's failures: nothing is lost, and it goes on by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.stores.redis.servers import Server
from workfleet.clock import SystemClock
from workfleet.errors import StoreUnavailable
from workfleet.ids import new_token
from workfleet.model.outcome import GIVE_BACK
from workfleet.ports.jobs import TakeOver
from workfleet.stores.redis.store import RedisStore
from workfleet.testing.contracts.harness import ended, job, request

_JOBS = 300


@pytest.fixture
def durable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that keeps what it acknowledged."""
    made = Server(tmp_path_factory.mktemp("r"), "--appendonly", "yes", "--appendfsync", "always")
    made.start()
    yield made
    made.stop()


async def consume(store: RedisStore, done: set[str], enough: asyncio.Event) -> None:
    """A worker's loop: what failed for want of the store is asked again, a settle with the same words."""
    while not enough.is_set():
        try:
            claimed = await store.jobs.claim(request(5, lease_ms=5_000))
            if not claimed:
                await store.jobs.wait(["q"], 200)
                continue
        except StoreUnavailable:
            await asyncio.sleep(0.02)
            continue
        settlements = [ended(record) for record in claimed]
        applied: list[bool] = []
        while not applied:
            try:
                applied = (await store.jobs.settle(settlements)).applied
            except StoreUnavailable:
                await asyncio.sleep(0.02)
        assert applied == [True] * len(claimed)
        assert done.isdisjoint(record.id for record in claimed)
        done.update(record.id for record in claimed)
        await asyncio.sleep(0.02)
        if len(done) == _JOBS:
            enough.set()


@pytest.mark.parametrize("how", ["restarted", "killed connections", "forgotten scripts", "frozen"])
async def test_consumption_goes_on_through_failures(durable: Server, how: str) -> None:
    store = await RedisStore.open(durable.url, app="shop", clock=SystemClock())
    try:
        await store.jobs.enqueue([job(f"j{n}") for n in range(_JOBS)])
        done: set[str] = set()
        enough = asyncio.Event()
        working = asyncio.create_task(consume(store, done, enough))
        for _ in range(3):
            await asyncio.sleep(0.1)
            before = len(done)
            await asyncio.to_thread(harm, durable, how)
            async with asyncio.timeout(30):
                while len(done) <= before and not enough.is_set():
                    await asyncio.sleep(0.02)
        # What a claim took whose answer was lost comes back by its lease.
        async with asyncio.timeout(60):
            while not enough.is_set():
                await asyncio.sleep(0.1)
                await recover(store)
        await working
        assert done == {f"j{n}" for n in range(_JOBS)}
        assert (await store.jobs.counts())["q"].completed == _JOBS
    finally:
        await store.close()


def harm(server: Server, how: str) -> None:
    if how == "restarted":
        server.stop()
        server.start()
    elif how == "frozen":
        server.freeze()
        server.thaw()
    elif how == "killed connections":
        server.ask("CLIENT", "KILL", "TYPE", "normal")
    else:
        for _ in range(50):
            server.ask("SCRIPT", "FLUSH")


async def recover(store: RedisStore) -> None:

    try:
        taken = await store.jobs.take_over(TakeOver("reaper", new_token(), 2_000))
        await store.jobs.settle([ended(record, GIVE_BACK) for record in taken])
    except StoreUnavailable:
        pass
