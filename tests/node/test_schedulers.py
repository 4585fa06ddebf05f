"""Job schedulers and metrics of BullMQ's, kept going by both sides in turn."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.node.node import NodeRoom, Opened
from tests.node.ours import claim, finish, job, raised, returned
from tests.stores.redis.servers import Server
from workfleet.clock import SystemClock
from workfleet.ids import new_token
from workfleet.model.jobs import RunOverrides
from workfleet.stores.redis.store import RedisStore

pytestmark = pytest.mark.full
HOUR = 3_600_000


async def next_slot(queue: Opened) -> tuple[str, int]:
    """The one job that the scheduler has ahead, and its instant."""
    (ahead,) = await queue.call("getJobs", ["delayed", "wait"], 0, -1, True)
    return ahead["id"], int(ahead["id"].rpartition(":")[2])


async def run_by_node(worker: Opened) -> dict[str, Any]:
    token = new_token()
    given: dict[str, Any] = await worker.call("getNextJob", token, {"block": False})
    await worker.job(given["id"], "moveToCompleted", "node", token, False)
    return given


async def run_by_us(store: RedisStore) -> dict[str, Any]:
    (record,) = await claim(store)
    await finish(store, record, returned("ours"))
    return {"id": record.id, "name": record.name, "data": record.payload}


@pytest.mark.parametrize("repeat", [{"every": HOUR}, {"pattern": "0 * * * *", "tz": "Europe/Berlin"}])
async def test_a_hundred_slots_of_a_scheduler_of_nodes_run_in_turn(
    node: NodeRoom, store: RedisStore, repeat: dict[str, Any]
) -> None:
    queue, worker = await node.queue(), await node.worker(work=False)
    await queue.call("upsertJobScheduler", "s", repeat, {"name": "tick", "data": {"n": 1}})
    slots, run = [], []
    for number in range(100):
        job_id, slot = await next_slot(queue)
        slots.append(slot)
        if await queue.job(job_id, "getState") == "delayed":
            await queue.job(job_id, "promote")
        given = await (run_by_us(store) if number % 3 else run_by_node(worker))
        run.append(given["id"])
    assert run == [f"repeat:s:{slot}" for slot in slots]
    steps = {after - before for before, after in itertools.pairwise(slots)}
    assert steps == {HOUR}
    (scheduler,) = await queue.call("getJobSchedulers")
    assert scheduler["iterationCount"] == 101
    assert await queue.call("getJobCounts", "completed", "delayed") == {"completed": 100, "delayed": 1}


async def test_a_scheduler_that_is_removed_stops(node: NodeRoom, store: RedisStore) -> None:
    queue = await node.queue()
    await queue.call("upsertJobScheduler", "s", {"every": HOUR}, {"name": "tick"})
    job_id, _ = await next_slot(queue)
    if await queue.job(job_id, "getState") == "delayed":
        await queue.job(job_id, "promote")
    (record,) = await claim(store)
    await queue.call("removeJobScheduler", "s")
    await finish(store, record, returned(1))
    assert await queue.call("getJobCounts", "delayed", "wait", "completed") == {"delayed": 0, "wait": 0, "completed": 1}


async def test_metrics_count_what_we_end(node: NodeRoom, server: Server) -> None:
    store = await RedisStore.open(server.url, app="shop", clock=SystemClock(), prefix="bull", metrics_minutes=60)
    try:
        queue = await node.queue()
        await store.jobs.enqueue([job(f"j{n}", run=RunOverrides(attempts=1)) for n in range(5)])
        for number, record in enumerate(await claim(store, 5)):
            await finish(store, record, raised("no") if number == 4 else returned(number))
        completed, failed = await queue.call("getMetrics", "completed"), await queue.call("getMetrics", "failed")
        assert (completed["meta"]["count"], failed["meta"]["count"]) == (4, 1)
    finally:
        await store.close()
