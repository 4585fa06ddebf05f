"""A job whose worker died is recovered by the other side."""

from __future__ import annotations

import asyncio

import pytest

from tests.node.node import NodeRoom
from tests.node.ours import WORKER, claim, finish, job, returned, settlement
from workfleet.ids import new_token
from workfleet.model.jobs import Failure
from workfleet.model.limits import QueueLimits
from workfleet.model.outcome import Ended
from workfleet.ports.stores import TakeOver
from workfleet.stores.redis.store import RedisStore

pytestmark = pytest.mark.full
LONG_MS = 3_000
"""A lease that is waited out, and that no pause of a busy machine is as long as."""
CRASHED = Ended(kind="crashed", failure=Failure("crashed", "its worker is gone"))


async def test_node_recovers_what_a_worker_of_ours_left(node: NodeRoom, store: RedisStore) -> None:
    await store.jobs.enqueue([job("a", data={"n": 1})])
    (record,) = await claim(store, lease_ms=100)
    events = await node.events()
    worker = await node.worker(stalledInterval=150, name="node1")
    await worker.until_saw("completed", "a")
    await events.until_saw("stalled", "a")
    assert (await store.jobs.settle([settlement(record, returned("late"))])).applied == [False]
    assert await store.jobs.renew([record.claim], 1_000) == [False]
    (ended,) = await store.jobs.get(["a"])
    assert ended is not None
    assert (ended.result, ended.crashes, ended.token) == (b'{"n":1}', 1, None)


async def test_node_leaves_a_job_alone_whose_lease_we_renew(node: NodeRoom, store: RedisStore) -> None:
    await store.jobs.enqueue([job("a")])
    (record,) = await claim(store, lease_ms=LONG_MS)
    worker = await node.worker(stalledInterval=50)
    for _ in range(12):
        await asyncio.sleep(LONG_MS / 8_000)
        assert await store.jobs.renew([record.claim], LONG_MS) == [True]
    await finish(store, record, returned("mine"))
    assert worker.ends() == []


async def test_we_recover_what_a_node_worker_left(node: NodeRoom, store: RedisStore) -> None:
    await store.queues.set_limits({"q": QueueLimits()})  # as every worker does when it starts
    queue, events = await node.queue(), await node.events()
    dead = await node.worker(work=False, name="node1", lockDuration=LONG_MS)
    await queue.call("add", "ok", {"n": 1}, {"jobId": "a"})
    token = new_token()
    given = await dead.call("getNextJob", token, {"block": False})
    assert given["id"] == "a"
    taken = await store.jobs.take_over(TakeOver(WORKER, new_token(), 30_000))
    assert taken == []
    async with asyncio.timeout(60):
        while not (taken := await store.jobs.take_over(TakeOver(WORKER, new_token(), 30_000))):
            await asyncio.sleep(0.02)
    assert [each.id for each in taken] == ["a"]
    assert (await store.jobs.settle([settlement(taken[0], CRASHED)])).applied == [True]
    await events.until_saw("stalled", "a")
    (record,) = await claim(store)
    assert (record.id, record.crashes) == ("a", 1)
    await finish(store, record, returned("here"))
    with pytest.raises(Exception, match=r"(?i)lock"):
        await dead.job("a", "moveToCompleted", "late", token, False)
    assert (await queue.job("a"))["returnvalue"] == "here"
    assert (await queue.job("a"))["stalledCounter"] == 1


async def test_a_job_that_node_gave_up_fails_here_too(node: NodeRoom, store: RedisStore) -> None:
    """After too many stalls Node leaves it to the next worker to fail the job."""
    queue = await node.queue()
    await store.jobs.enqueue([job("a")])
    worker = await node.worker(work=False, name="node1", stalledInterval=30, maxStalledCount=0)
    await claim(store, lease_ms=20)
    for _ in range(4):
        await asyncio.sleep(0.1)
        await worker.call("moveStalledJobsToWait")
    (record,) = await claim(store)
    assert record.doomed is not None
    assert "stalled" in record.doomed.message
    await finish(store, record, Ended(kind="failed", failure=record.doomed))
    assert await queue.job("a", "getState") == "failed"
