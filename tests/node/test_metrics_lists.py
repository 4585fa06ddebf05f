"""What ended in each minute: counted by our workers as by Node's, and read by Node's `getMetrics`."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.node.node import NodeRoom, Opened
from tests.node.ours import claim, finish, raised, returned
from tests.stores.redis.servers import Server
from workfleet.clock import SystemClock
from workfleet.stores.redis.store import RedisStore

pytestmark = pytest.mark.full
KINDS = ("completed", "failed")
MINUTE = 60_000
POINTS = 4


@pytest_asyncio.fixture
async def counting(server: Server) -> AsyncIterator[RedisStore]:
    opened = await RedisStore.open(server.url, app="shop", clock=SystemClock(), prefix="bull", metrics_minutes=POINTS)
    yield opened
    await opened.close()


async def add(queue: Opened, good: int, bad: int) -> None:
    for _ in range(good):
        await queue.call("add", "ok", 1)
    for _ in range(bad):
        await queue.call("add", "fail", {"message": "no"})


async def work_off(store: RedisStore, good: int, bad: int) -> None:
    records = await claim(store, good + bad, queue="ours")
    assert len(records) == good + bad
    for record in records:
        await finish(store, record, returned(1) if record.name == "ok" else raised("no"))


def minutes_pass(server: Server, queue: str, minutes: int) -> None:
    """As if what was counted so far had been counted earlier."""
    for kind in KINDS:
        key = f"bull:{queue}:metrics:{kind}"
        said = server.ask("HGET", key, "prevTS")
        if isinstance(said, bytes):
            server.ask("HSET", key, "prevTS", int(said) - minutes * MINUTE)


async def metrics(queue: Opened) -> list[Any]:
    found = [await queue.call("getMetrics", kind) for kind in KINDS]
    for each in found:
        # Both count at the same time, within one test.
        assert each["meta"]["prevTS"] == 0 or abs(each["meta"].pop("prevTS") - time.time() * 1000) < 30_000
    return found


async def test_they_are_those_of_node(node: NodeRoom, counting: RedisStore, server: Server) -> None:
    if time.time() % 60 > 50:
        minutes_pass_by = 60 - time.time() % 60
        time.sleep(minutes_pass_by)  # the minute must not change between the two sides
    ours, theirs = await node.queue("ours"), await node.queue("theirs")
    worker = await node.worker("theirs", metrics={"maxDataPoints": POINTS})
    total, seen = 0, []
    for passing, good, bad in ((0, 3, 1), (0, 2, 2), (1, 4, 1), (3, 1, 1), (1, 2, 1), (50, 1, 1)):
        for name in ("ours", "theirs"):
            minutes_pass(server, name, passing)
        await add(ours, good, bad)
        await work_off(counting, good, bad)
        await add(theirs, good, bad)
        total += good + bad
        await worker.until(lambda _, total=total: len(worker.ends()) == total, f"{total} ends")  # type: ignore[misc]
        seen.append(await metrics(ours))
        assert seen[-1] == await metrics(theirs)
    completed, failed = seen[-1]
    assert (completed["meta"]["count"], failed["meta"]["count"]) == (13, 7)
    assert (completed["data"], completed["count"]) == ([0, 0, 0, 2], POINTS)
    said = await ours.call("exportPrometheusMetrics")
    assert 'bullmq_job_completed_total{queue="ours"} 13' in said
