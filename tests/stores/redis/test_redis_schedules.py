"""Schedules on a server: programs that keep no places in the line work beside this one, and nothing stands still."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio

from tests.stores.redis.servers import Server
from workfleet.model.handout import DueRequest
from workfleet.stores.redis.store import RedisStore
from workfleet.testing.contracts.harness import ManualClock, job
from workfleet.testing.contracts.schedules import NEXT, SLOT, schedule

DUE = DueRequest(10, 0, 60_000)


@pytest_asyncio.fixture
async def store(server: Server) -> AsyncIterator[RedisStore]:
    server.ask("FLUSHALL")
    clock = ManualClock(SLOT)
    opened = await RedisStore.open(server.url, app="shop", clock=clock, test_now_ms=clock.now_ms)
    yield opened
    await opened.close()


async def test_a_fire_of_a_program_without_places_is_seen(store: RedisStore, server: Server) -> None:
    await store.schedules.merge([schedule("a"), schedule("b")])
    server.ask("HSET", "wf:shop:schedule:a:s", "next_due_ms", str(NEXT))
    handed = await store.schedules.claim_due(DUE)
    assert ([record.name for record in handed.records], handed.next_ms) == (["b"], NEXT)
    assert server.ask("ZSCORE", "wf:shop:schedules_due", "a") == str(NEXT).encode()


async def test_what_such_a_program_paused_or_deleted_is_not_handed_out(store: RedisStore, server: Server) -> None:
    await store.schedules.merge([schedule("a"), schedule("b"), schedule("c")])
    server.ask("HSET", "wf:shop:schedule:a:s", "paused", "1")
    server.ask("SREM", "wf:shop:schedules", "b")
    server.ask("DEL", "wf:shop:schedule:b:s")
    assert [record.name for record in (await store.schedules.claim_due(DUE)).records] == ["c"]
    assert server.ask("ZRANGE", "wf:shop:schedules_due", "0", "-1") == [b"c"]


async def test_what_such_a_program_added_gets_a_place_at_the_next_start(store: RedisStore, server: Server) -> None:
    await store.schedules.merge([schedule("a")])
    await store.schedules.put(schedule("added", from_code=False), replace=False)
    server.ask("DEL", "wf:shop:schedules_due")
    assert (await store.schedules.claim_due(DUE)).records == []
    await store.schedules.merge([schedule("a")])
    assert [record.name for record in (await store.schedules.claim_due(DUE)).records] == ["a", "added"]


async def test_others_go_on_while_many_are_merged(store: RedisStore) -> None:
    defined = [schedule(f"s{number:04}", next_due_ms=NEXT + number) for number in range(5_000)]
    merging = asyncio.create_task(store.schedules.merge(iter(defined)))
    others = 0
    while not merging.done():
        await store.jobs.enqueue([job(f"j{others}")])
        others += 1
    assert await merging == []
    assert others > 10
    assert await store.schedules.all() == defined
