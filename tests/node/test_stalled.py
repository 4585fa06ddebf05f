"""A job whose worker died is recovered by the other side."""

from __future__ import annotations

import asyncio

import pytest

from tests.node.node import NodeRoom
from tests.node.ours import WORKER, claim, finish, job, returned, settlement
from tests.stores.redis.servers import Server
from workfleet.ids import new_token
from workfleet.model.jobs import Failure
from workfleet.model.limits import QueueLimits
from workfleet.model.outcome import Ended
from workfleet.ports.jobs import TakeOver
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


@pytest.mark.parametrize("lock_left", [True, False])
async def test_what_node_has_recovered_and_begun_is_no_longer_ours(
    node: NodeRoom, store: RedisStore, server: Server, *, lock_left: bool
) -> None:
    """While it renews its lock nobody takes the job from it; once it has died too, our claim of before is stale."""
    await store.jobs.enqueue([job("a")])
    (record,) = await claim(store, lease_ms=20)
    theirs = await node.worker(work=False, name="node1", stalledInterval=30)
    while server.ask("LLEN", "bull:q:wait") == 0:
        await asyncio.sleep(0.05)
        await theirs.call("moveStalledJobsToWait")
    token = new_token()
    assert (await theirs.call("getNextJob", token, {"block": False}))["id"] == "a"
    if not lock_left:
        server.ask("DEL", "bull:q:a:lock")
    assert await store.jobs.renew([record.claim], 30_000) == [False]
    assert await store.jobs.take_over(TakeOver(WORKER, new_token(), 30_000, workers=(WORKER,))) == []
    taken = await store.jobs.take_over(TakeOver(WORKER, new_token(), 30_000))
    assert [each.id for each in taken] == ([] if lock_left else ["a"])
    assert (await store.jobs.settle([settlement(record, returned("late"))])).applied == [False]
    if lock_left:
        await theirs.job("a", "moveToCompleted", "node", token, False)
        assert [each and each.result for each in await store.jobs.get(["a"])] == [b'"node"']


async def test_node_leaves_a_job_alone_whose_lease_we_renew(node: NodeRoom, store: RedisStore) -> None:
    await store.jobs.enqueue([job("a")])
    (record,) = await claim(store, lease_ms=LONG_MS)
    worker = await node.worker(stalledInterval=50)
    for _ in range(12):
        await asyncio.sleep(LONG_MS / 8_000)
        assert await store.jobs.renew([record.claim], LONG_MS) == [True]
    await finish(store, record, returned("mine"))
    assert worker.ends() == []


async def test_renewing_and_ending_take_back_nodes_suspicion(node: NodeRoom, store: RedisStore, server: Server) -> None:
    """What is in `stalled` and has no lock at the next look has stalled."""
    await store.jobs.enqueue([job("a"), job("b"), job("c")])
    a, b, c = await claim(store, 3)
    worker = await node.worker(work=False, stalledInterval=20)
    while server.ask("SCARD", "bull:q:stalled") != 3:
        await asyncio.sleep(0.03)
        await worker.call("moveStalledJobsToWait")
    await store.jobs.renew([a.claim], LONG_MS)
    assert server.ask("SMISMEMBER", "bull:q:stalled", "a", "b", "c") == [0, 1, 1]
    await finish(store, b, returned(1))
    assert server.ask("SMISMEMBER", "bull:q:stalled", "a", "b", "c") == [0, 0, 1]
    await store.jobs.settle([settlement(c, Ended(kind="given_back"))])
    assert server.ask("EXISTS", "bull:q:stalled") == 0


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


@pytest.mark.parametrize("crashes", [3, 2])
async def test_a_schedulers_run_that_crashes_too_often_fails_here_and_its_scheduler_goes_on(
    node: NodeRoom, store: RedisStore, crashes: int
) -> None:
    """Node would run it again for ever."""
    queue = await node.queue()
    made = await queue.call("upsertJobScheduler", "r", {"every": 3_600_000}, {"name": "ok", "data": 1})
    for _ in range(crashes):
        (record,) = await claim(store)
        assert record.id == made["id"]
        await finish(store, record, CRASHED)
    assert await queue.job(made["id"], "getState") == ("failed" if crashes == 3 else "waiting")
    (scheduler,) = await queue.call("getJobSchedulers")
    ahead = f"repeat:r:{int(scheduler['next'])}"
    assert ahead != made["id"]
    assert await queue.job(ahead, "getState") == "delayed"
