"""Locks by the server's time: what a process takes for the time decides nothing."""

from __future__ import annotations

import asyncio

from tests.stores.redis.servers import Server
from workfleet.clock import SkewedClock, SystemClock
from workfleet.model.fleet import LockGrant, LockHeld
from workfleet.stores.redis.store import RedisStore

YEAR_MS = 365 * 86_400_000


async def test_a_lock_runs_out_by_the_servers_clock(server: Server) -> None:
    clocks = (SkewedClock(SystemClock(), YEAR_MS), SkewedClock(SystemClock(), -YEAR_MS))
    fast, slow = [await RedisStore.open(server.url, app="shop", clock=clock) for clock in clocks]
    seconds, micros = server.ask("TIME")
    before_us = int(seconds) * 1_000_000 + int(micros)
    first = await fast.locks.acquire("l", "fast", 700)
    assert isinstance(first, LockGrant)
    assert before_us <= first.fence < before_us + 60_000_000
    assert first.expires_ms - first.fence // 1_000 in (700, 701)
    assert await slow.locks.acquire("l", "slow", 700) == LockHeld("l", "fast", first.expires_ms)
    assert await slow.locks.held() == [first]
    while not isinstance(second := await slow.locks.acquire("l", "slow", 700), LockGrant):
        await asyncio.sleep(0.01)
    assert second.fence // 1_000 >= first.expires_ms
    assert await fast.locks.renew("l", "fast", 700) is None
    for store in (fast, slow):
        await store.close()
