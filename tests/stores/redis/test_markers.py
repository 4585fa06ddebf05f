"""Markers wake who waits, one of many: those of BullMQ's programs and ours."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio

from tests.stores.redis.servers import Server
from workfleet.clock import SystemClock
from workfleet.model.limits import QueueLimits
from workfleet.stores.redis.store import RedisStore
from workfleet.testing.contracts.harness import ids, job, request

_SOON_S = 30


@pytest_asyncio.fixture
async def shared(server: Server) -> AsyncIterator[RedisStore]:
    store = await RedisStore.open(server.url, app="shop", clock=SystemClock(), prefix="bull")
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


async def test_a_delayed_job_tells_idle_workers_of_bullmq_when_the_first_is_due(
    shared: RedisStore, server: Server
) -> None:
    """They would sleep past it: nothing else tells them."""
    for job_id, delay_ms in (("late", 90_000), ("first", 60_000), ("last", 120_000)):
        await shared.jobs.enqueue([job(job_id, delay_ms=delay_ms)])
        due = await shared.jobs.next_due_ms(["q"])
        assert due is not None
        assert markers(server, "q") == [b"1", str(due).encode()]
        server.ask("DEL", "bull:q:marker")


async def test_who_takes_what_has_just_become_due_wakes_nobody_for_it(shared: RedisStore, server: Server) -> None:
    await shared.jobs.enqueue([job("a", delay_ms=1)])
    server.ask("DEL", "bull:q:marker")
    async with asyncio.timeout(_SOON_S):
        while not await shared.jobs.claim(request(5)):
            await asyncio.sleep(0.01)
    assert markers(server, "q") == []


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


async def test_who_waits_for_another_queue_now_is_heard_at_once(shared: RedisStore, server: Server) -> None:
    """The pop at the server is about the queues of an earlier wait, and lasts for seconds."""
    first = await waiting(shared, "q")
    first.cancel()
    await asyncio.wait({first})
    task = await waiting(shared, "r")
    mark(server, "r")
    assert await asyncio.wait_for(task, 15)
    assert [key for key in keys(server) if b"nudge" in key] == []


def keys(server: Server) -> list[bytes]:
    found = server.ask("KEYS", "*")
    assert isinstance(found, list)
    return found


@asynccontextmanager
async def fleet(server: Server, size: int) -> AsyncIterator[list[RedisStore]]:
    """Stores of one app, as so many processes have them."""
    stores = [await RedisStore.open(server.url, app="shop", clock=SystemClock()) for _ in range(size)]
    yield stores
    for store in stores:
        await store.close()


async def test_one_job_wakes_one_of_an_idle_fleet(server: Server) -> None:
    async with fleet(server, 5) as (producer, *workers):
        for number in range(len(workers)):
            tasks = [await waiting(worker, "q") for worker in workers]
            await producer.jobs.enqueue([job(f"j{number}")])
            done, others = await asyncio.wait(tasks, timeout=_SOON_S, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(0.1)
            assert [task.result() for task in done] == [True]
            assert not any(task.done() for task in others)
            (woken,) = (worker for worker, task in zip(workers, tasks, strict=True) if task in done)
            assert ids(await woken.jobs.claim(request(5))) == f"j{number}"
            for task in others:
                task.cancel()
            await asyncio.wait(others)


async def test_who_takes_all_it_can_passes_the_marker_on(server: Server) -> None:
    async with fleet(server, 4) as (producer, *workers):
        tasks = {asyncio.create_task(take_one(worker, number)): worker for number, worker in enumerate(workers)}
        await asyncio.sleep(0.2)
        await producer.jobs.enqueue([job("j0"), job("j1"), job("j2")])
        taken = await asyncio.wait_for(asyncio.gather(*tasks), _SOON_S)
        assert sorted(taken) == ["j0", "j1", "j2"]


async def take_one(store: RedisStore, number: int) -> str:
    assert await store.jobs.wait(["q"], 60_000)
    return ids(await store.jobs.claim(request(worker=f"w{number}")))


async def test_who_becomes_busy_passes_on_when_a_delayed_job_is_due(server: Server) -> None:
    async with fleet(server, 3) as (producer, busy, idle):
        await producer.jobs.enqueue([job("now"), job("later", delay_ms=60_000)])
        server.ask("DEL", "shop:q:marker")
        task = await waiting(idle, "q")
        assert ids(await busy.jobs.claim(request(1))) == "now"
        assert await asyncio.wait_for(task, _SOON_S)
        later = await producer.jobs.next_due_ms(["q"])
        assert later is not None
        assert await idle.jobs.next_due_ms(["q"]) == later


async def test_what_cannot_start_wakes_nobody_again_and_again(server: Server) -> None:
    async with fleet(server, 2) as (producer, worker):
        await producer.queues.set_limits({"q": QueueLimits(concurrency=1)})
        await producer.jobs.enqueue([job("a"), job("b"), job("c")])
        assert ids(await worker.jobs.claim(request(5))) == "a"
        for _ in range(2):  # what the enqueueing and the limit have left
            if await worker.jobs.wait(["q"], 500):
                assert await worker.jobs.claim(request(5)) == []
        assert not await worker.jobs.wait(["q"], 500)
