"""Why a job of Node's does not run, on queues that both sides have."""

from __future__ import annotations

import asyncio
import random

import pytest
from msgspec import structs

from tests.node.node import NodeRoom
from tests.node.ours import claim
from tests.node.test_flows import node_of
from workfleet.clock import SystemClock
from workfleet.model.fleet import WorkerRecord
from workfleet.model.limits import QueueLimits
from workfleet.queues.jobs import Jobs
from workfleet.stores.redis.store import RedisStore
from workfleet.supervision.identity import own_identity

pytestmark = pytest.mark.full


@pytest.fixture
def jobs(store: RedisStore) -> Jobs:
    async def opened() -> RedisStore:
        return store

    return Jobs(opened, SystemClock())


async def codes(jobs: Jobs, job_id: str) -> list[str]:
    return [reason.code for reason in await jobs.explain(job_id)]


async def listen(store: RedisStore, **facts: object) -> None:
    record = WorkerRecord(id="w", identity=own_identity(), queues=("q", "kids", "top"))
    await store.fleet.register(structs.replace(record, **facts))


async def test_what_a_job_of_node_waits_for(node: NodeRoom, store: RedisStore, jobs: Jobs) -> None:
    await store.queues.set_limits({"q": QueueLimits()})
    queue = await node.queue()
    await queue.call("add", "ok", 1, {"jobId": "a"})
    assert await codes(jobs, "a") == ["no_worker"]
    await listen(store, handlers={"q": ("bye",)})
    assert await codes(jobs, "a") == ["no_handler"]
    await listen(store)
    assert await codes(jobs, "a") == ["next"]
    await queue.call("add", "ok", 1, {"jobId": "later", "delay": 3_600_000})
    (reason,) = await jobs.explain("later")
    assert (reason.code, "Z (in 59m" in reason.text or "Z (in 1h)" in reason.text) == ("delayed", True)
    await queue.call("pause")
    assert await codes(jobs, "a") == ["paused"]
    await queue.call("resume")
    await queue.call("setGlobalConcurrency", 1)
    (running,) = await claim(store)
    assert await codes(jobs, running.id) == []
    await queue.call("add", "ok", 1, {"jobId": "b"})
    assert await codes(jobs, "b") == ["queue_limit"]
    await queue.call("removeGlobalConcurrency")
    assert await codes(jobs, "b") == ["next"]
    await queue.call("setGlobalRateLimit", 1, 3_600_000)
    await queue.call("add", "ok", 1, {"jobId": "c"})
    await claim(store)
    (reason,) = await jobs.explain("c")
    assert (reason.code, "at most 1 in 1h start" in reason.text) == ("rate", True)


async def test_the_workers_of_node_are_workers(node: NodeRoom, store: RedisStore, jobs: Jobs) -> None:
    """They take what there is, whatever its name is. Which names they know, they do not say."""
    await store.queues.set_limits({"q": QueueLimits()})
    queue = await node.queue()
    await queue.call("pause")
    await queue.call("add", "ok", 1, {"jobId": "a"})
    assert await codes(jobs, "a") == ["paused", "no_worker"]
    await node.worker(name="node1")
    async with asyncio.timeout(60):
        while await codes(jobs, "a") != ["paused"]:
            await asyncio.sleep(0.05)
    await listen(store, handlers={"q": ("bye",)})
    assert await codes(jobs, "a") == ["paused"]


async def test_a_parent_waits_for_its_children(node: NodeRoom, store: RedisStore, jobs: Jobs) -> None:
    await store.queues.set_limits({"top": QueueLimits(), "kids": QueueLimits()})
    await listen(store)
    flows = await node.flows()
    await flows.call("add", node_of("p", node_of("a"), node_of("b"), queue="top"))
    (reason,) = await jobs.explain("p")
    assert (reason.code, reason.text) == ("children", "its child jobs, which have not all finished: 0 have")


async def test_as_many_are_ahead_as_are_claimed_before(node: NodeRoom, store: RedisStore, jobs: Jobs) -> None:
    await store.queues.set_limits({"q": QueueLimits()})
    await listen(store)
    queue, draw = await node.queue(), random.Random(3)
    for number in range(30):
        opts = draw.choice([{}, {}, {"lifo": True}, {"priority": 2}, {"priority": 7}])
        await queue.call("add", "ok", 1, {"jobId": f"j{number}", **opts})
    said = {}
    for number in range(30):
        (reason,) = await jobs.explain(f"j{number}")
        said[f"j{number}"] = 0 if reason.code == "next" else int(reason.text.split("behind ")[1].split()[0])
    claimed = await claim(store, limit=30)
    assert said == {job.id: at for at, job in enumerate(claimed)}
