"""Queues that programs with BullMQ fill too: their markers wake who waits."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.stores.redis.servers import Server
from workfleet.clock import SystemClock
from workfleet.stores.redis.store import RedisStore

_SOON_S = 10


@pytest_asyncio.fixture
async def shared(server: Server) -> AsyncIterator[RedisStore]:
    store = await RedisStore.open(server.url, app="shop", clock=SystemClock(), prefix="bull", shared=True)
    yield store
    await store.close()


def mark(server: Server, queue: str, member: str = "0", score: int = 0) -> None:
    """As BullMQ's scripts do."""
    server.ask("ZADD", f"bull:{queue}:marker", score, member)


def markers(server: Server, queue: str) -> object:
    return server.ask("ZRANGE", f"bull:{queue}:marker", 0, -1, "WITHSCORES")


def clients(server: Server) -> bytes:
    listed = server.ask("CLIENT", "LIST")
    assert isinstance(listed, bytes)
    return listed


async def waiting(store: RedisStore, *queues: str, timeout_ms: int = 60_000) -> asyncio.Task[bool]:
    task = asyncio.create_task(store.jobs.wait(queues, timeout_ms))
    await asyncio.sleep(0.1)
    assert not task.done()
    return task


@pytest.mark.parametrize(("member", "score"), [("0", 0), ("1", 1_700_000_000_000)])
async def test_a_marker_wakes_and_is_taken(shared: RedisStore, server: Server, member: str, score: int) -> None:
    for queue in ("p", "q"):
        task = await waiting(shared, "p", "q")
        mark(server, queue, member, score)
        assert await asyncio.wait_for(task, _SOON_S)
        assert markers(server, queue) == []


async def test_one_for_another_queue_is_left_alone(shared: RedisStore, server: Server) -> None:
    task = await waiting(shared, "q")
    mark(server, "r")
    await asyncio.sleep(0.1)
    assert not task.done()
    assert markers(server, "r") == [b"0", b"0"]
    task.cancel()


async def test_one_that_comes_when_nobody_waits_any_more_is_put_back(shared: RedisStore, server: Server) -> None:
    task = await waiting(shared, "q")
    task.cancel()
    await asyncio.wait({task})
    mark(server, "q", "1", 1_700_000_000_123)
    async with asyncio.timeout(_SOON_S):
        while not re.search(rb"name=workfleet:shop .* cmd=zadd ", clients(server)):
            await asyncio.sleep(0.02)
    assert markers(server, "q") == [b"1", b"1700000000123"]


async def test_who_waits_hears_again_after_a_loss(shared: RedisStore, server: Server) -> None:
    task = await waiting(shared, "q")
    server.ask("CLIENT", "KILL", "TYPE", "normal")
    mark(server, "q")
    assert await asyncio.wait_for(task, _SOON_S)


async def test_without_sharing_no_marker_is_taken(server: Server) -> None:
    store = await RedisStore.open(server.url, app="shop", clock=SystemClock(), prefix="bull")
    mark(server, "q")
    assert not await store.jobs.wait(["q"], 100)
    assert markers(server, "q") == [b"0", b"0"]
    await store.close()
