"""Who works on a queue, as Node's `getWorkers` tells: our workers beside Node's."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tests.node.node import NodeRoom, Opened
from tests.node.ours import LEASE_MS
from tests.stores.redis.servers import Server
from workfleet.clock import SystemClock
from workfleet.ids import new_token
from workfleet.ports.jobs import ClaimRequest, Want
from workfleet.stores.redis.store import RedisStore

pytestmark = pytest.mark.full


async def until_listed(queue: Opened, expected: Sequence[str]) -> None:
    async with asyncio.timeout(10):
        while sorted(each["rawname"] for each in await queue.call("getWorkers")) != list(expected):
            await asyncio.sleep(0.02)


async def claims(store: RedisStore, worker: str, *queues: str) -> None:
    await store.jobs.claim(ClaimRequest(worker, new_token(), LEASE_MS, tuple(Want(queue, 1) for queue in queues)))


@pytest.mark.parametrize("lib", [5, 6])
async def test_each_queue_has_its_workers(node: NodeRoom, server: Server, store: RedisStore, lib: int) -> None:
    q, other = await node.queue("q", lib=lib), await node.queue("Grüße", lib=lib)
    await node.worker("q", name="node1")
    await claims(store, "py1", "q", "Grüße")
    second = await RedisStore.open(server.url, app="shop", clock=SystemClock(), prefix="bull")
    await claims(second, "py2", "q")
    await until_listed(q, ["bull:cQ==:w:node1", "bull:cQ==:w:py1", "bull:cQ==:w:py2"])
    assert await q.call("getWorkersCount") == 3
    assert {each["name"] for each in await q.call("getWorkers")} == {"q"}
    await until_listed(other, ["bull:R3LDvMOfZQ==:w:py1"])
    await second.close()
    await until_listed(q, ["bull:cQ==:w:node1", "bull:cQ==:w:py1"])


async def test_we_see_nodes_workers(node: NodeRoom, store: RedisStore) -> None:
    await node.queue()
    await node.worker(name="node1")
    await node.worker()
    await store.queues.set_paused("q", paused=True)
    async with asyncio.timeout(10):
        while (await store.peers())[0].workers != ("bull:cQ==", "bull:cQ==:w:node1"):
            await asyncio.sleep(0.02)
    (peers,) = await store.peers()
    assert (peers.version, peers.warning) == ("bullmq:6.7.0", None)
