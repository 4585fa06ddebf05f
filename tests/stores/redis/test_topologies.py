"""Sentinel and Cluster: the store finds the server of its keys, again after a failover."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from tests.stores.redis.servers import Server, free_port
from tests.stores.redis.topologies import CLUSTERED, clustered, watched
from workfleet.clock import SystemClock
from workfleet.errors import StoreUnavailable
from workfleet.model.ledger import LedgerKeep, LedgerRow
from workfleet.stores.redis.store import RedisStore
from workfleet.testing.contracts.harness import jobs, request
from workfleet.testing.contracts.schedules import schedule

pytestmark = pytest.mark.full
_SOON_S = 60


async def until(call: Callable[[], Awaitable[object]]) -> None:
    """Repeat a call until it is something and the store is there."""
    async with asyncio.timeout(_SOON_S):
        while True:
            try:
                if await call():
                    return
            except StoreUnavailable:
                pass
            await asyncio.sleep(0.05)


@pytest.fixture
def three(tmp_path_factory: pytest.TempPathFactory, binary: str) -> Iterator[list[Server]]:
    """A primary, its replica, a sentinel that watches them."""
    with watched(tmp_path_factory.mktemp, binary=binary) as made:
        yield [made.primary, made.replica, *made.sentinels]


async def test_after_a_failover_the_new_primary_is_found(three: list[Server]) -> None:
    primary, replica, sentinel = three
    url = f"redis+sentinel://127.0.0.1:{free_port()},127.0.0.1:{sentinel.port}/main/0"
    store = await RedisStore.open(url, app="shop", clock=SystemClock())
    other = await RedisStore.open(url, app="shop", clock=SystemClock())
    try:
        await store.keys.put_if_absent("k", b"v", 600_000)
        await store.locks.acquire("l", "me", 600_000)
        await until(lambda: replicated(replica))
        primary.stop()
        await until(lambda: said(store))
        assert await store.keys.get("k") == b"v"
        assert [lock.owner for lock in await store.locks.held()] == ["me"]
        await until(lambda: listeners(replica))
        waiting = asyncio.create_task(other.schedules.wait(60_000))
        await until(lambda: merged(store))
        assert await asyncio.wait_for(waiting, _SOON_S)
    finally:
        await store.close()
        await other.close()


async def test_sentinels_may_want_a_password_of_their_own(three: list[Server]) -> None:
    primary, _, sentinel = three
    sentinel.ask("ACL", "SETUSER", "default", "resetpass", ">s3cret")
    url = f"redis+sentinel://127.0.0.1:{sentinel.port}/main"
    for wrong in ("", "?sentinel_password=wr0ng"):
        with pytest.raises(StoreUnavailable) as refused:
            await RedisStore.open(url + wrong, app="shop", clock=SystemClock())
        assert "wr0ng" not in str(refused.value)
    store = await RedisStore.open(f"{url}?sentinel_password=s3cret", app="shop", clock=SystemClock())
    await store.check()
    await store.close()
    assert primary.ask("DBSIZE") == 1


async def said(store: RedisStore) -> bool:
    await store.check()
    return True


async def merged(store: RedisStore) -> bool:
    await store.schedules.merge([schedule("a")])
    return True


async def replicated(replica: Server) -> bool:
    return await asyncio.to_thread(replica.ask, "EXISTS", "wf:shop:value:k:v", "wf:shop:locks") == 2


async def listeners(server: Server) -> bool:
    listed = await asyncio.to_thread(server.ask, "CLIENT", "LIST", "TYPE", "pubsub")
    return str(listed).count("name=workfleet:shop ") == 2


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory, binary: str) -> Iterator[list[Server]]:
    """Three nodes that share the slots."""
    with clustered(tmp_path_factory.mktemp, binary=binary) as nodes:
        yield nodes


@pytest.mark.parametrize("app", ["shop", "other", "a third"])
async def test_a_cluster(cluster: list[Server], app: str) -> None:
    for node in cluster:
        store = await RedisStore.open(f"redis+cluster://127.0.0.1:{node.port}", app=app, clock=SystemClock())
        try:
            await store.check()
            await store.keys.put_if_absent(str(node.port), b"v", 600_000)
            await store.locks.acquire(str(node.port), "me", 600_000)
            await store.schedules.merge([schedule("a")])
            row = LedgerRow(id="1", at_ms=await store.now_ms(), schedule="a", outcome="completed")
            await store.ledger.record([row], LedgerKeep(age_ms=600_000, count=9))
            assert row in await store.ledger.history("a")
            assert await store.ledger.prune(600_000) == 0
        finally:
            await store.close()
    held = sorted([str(await asyncio.to_thread(node.ask, "DBSIZE")) for node in cluster])
    assert held[:2] == ["0", "0"]
    assert int(held[2]) == 3 + 1 + 3 + 4 + 2  # values, checked, locks, schedules, ledger


async def test_the_nodes_are_known_when_the_one_of_the_url_is_gone(cluster: list[Server]) -> None:
    await checked(cluster[0])
    (owner,) = [node for node in cluster if node.ask("DBSIZE")]
    named = next(node for node in cluster if node is not owner)
    store = await RedisStore.open(f"redis+cluster://127.0.0.1:{named.port}", app="shop", clock=SystemClock())
    try:
        named.stop()
        for _ in range(3):
            owner.ask("CLIENT", "KILL", "TYPE", "normal")
            await until(lambda: said(store))
        owner.stop()
        with pytest.raises(StoreUnavailable):
            await store.check()
        await asyncio.to_thread(owner.start)
        await until(lambda: said(store))
    finally:
        await store.close()


async def slot_of(node: Server) -> int:
    slot = await asyncio.to_thread(node.ask, "CLUSTER", "KEYSLOT", "wf:{shop}:queues")
    assert isinstance(slot, int)
    return slot


async def owner_of(cluster: list[Server]) -> Server:
    sizes = [await asyncio.to_thread(node.ask, "DBSIZE") for node in cluster]
    return next(node for node, size in zip(cluster, sizes, strict=True) if size)


async def test_the_keys_move_to_another_node(cluster: list[Server]) -> None:
    store = await RedisStore.open(f"redis+cluster://127.0.0.1:{cluster[0].port}", app="shop", clock=SystemClock())
    other = await RedisStore.open(f"redis+cluster://127.0.0.1:{cluster[1].port}", app="shop", clock=SystemClock())
    try:
        await store.jobs.enqueue(jobs("a b"))
        await store.check()
        source = await owner_of(cluster)
        target = next(node for node in cluster if node is not source)
        slot, names = await slot_of(source), {node: str(node.ask("CLUSTER", "MYID"), "ascii") for node in cluster}
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", names[source])
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", names[target])
        moved = source.ask("CLUSTER", "GETKEYSINSLOT", slot, 1_000)
        assert isinstance(moved, list)
        source.ask("MIGRATE", "127.0.0.1", target.port, "", 0, 5_000, "KEYS", *moved)
        with pytest.raises(StoreUnavailable, match=r"the cluster is moving the keys of this app to another node"):
            await store.check()
        for node in (target, source, *cluster):
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", names[target])
        await until(lambda: said(store))
        assert [each.id for each in await store.jobs.claim(request(2))] == ["a", "b"]
        assert source.ask("DBSIZE") == 0
        with pytest.raises(
            StoreUnavailable, match=r"are at another node of the cluster \(MOVED\)\. It is looked up again"
        ):
            await other.check()
        await until(lambda: said(other))
    finally:
        await store.close()
        await other.close()


async def test_a_node_of_a_cluster_that_is_taken_for_a_server(cluster: list[Server]) -> None:
    await checked(cluster[0])
    owner = await owner_of(cluster)
    wrong = next(node for node in cluster if node is not owner)
    store = await RedisStore.open(wrong.url, app="{shop}", clock=SystemClock())
    try:
        with pytest.raises(StoreUnavailable, match=r"Write redis\+cluster:// instead of redis://"):
            await store.check()
    finally:
        await store.close()


async def test_the_cluster_is_down_for_a_while(cluster: list[Server]) -> None:
    for node in cluster:
        node.ask("CONFIG", "SET", "cluster-require-full-coverage", "yes")
    store = await RedisStore.open(f"redis+cluster://127.0.0.1:{cluster[0].port}", app="shop", clock=SystemClock())
    try:
        await store.jobs.enqueue(jobs("a"))
        await store.check()
        owner = await owner_of(cluster)
        missing = next(node for node in cluster if node is not owner)
        missing.stop()
        reasons = set()

        async def is_down() -> bool:
            try:
                await store.check()
            except StoreUnavailable as error:
                reasons.add(error.reason)
            return "the cluster is down (CLUSTERDOWN)" in reasons

        await until(is_down)
        await asyncio.to_thread(missing.start)
        await until(lambda: said(store))
        assert [each.id for each in await store.jobs.claim(request(1))] == ["a"]
    finally:
        await store.close()


async def test_a_replica_takes_over_from_the_node(
    cluster: list[Server], tmp_path_factory: pytest.TempPathFactory, binary: str
) -> None:
    store = await RedisStore.open(f"redis+cluster://127.0.0.1:{cluster[0].port}", app="shop", clock=SystemClock())
    bus = free_port()
    replica = Server(tmp_path_factory.mktemp("r"), *CLUSTERED, str(bus), binary=binary)
    replica.start()
    try:
        await store.jobs.enqueue(jobs("a"))
        await store.check()
        owner = await owner_of(cluster)
        owner_bus = int(owner._command[-1])
        replica.ask("CLUSTER", "MEET", "127.0.0.1", owner.port, owner_bus)
        name = str(owner.ask("CLUSTER", "MYID"), "ascii")
        await until(lambda: asked(replica, "OK", "CLUSTER", "REPLICATE", name))
        await until(lambda: asked(replica, "master_link_status:up", "INFO", "replication"))
        # Whoever asks learns of the replica too, and asks it when the rest is gone.
        owner.ask("CLIENT", "KILL", "TYPE", "normal")
        await until(lambda: said(store))
        owner.stop()
        await until(lambda: said(store))
        assert [each.id for each in await store.jobs.claim(request(1))] == ["a"]
        assert await asked(replica, "role:master", "INFO", "replication")
    finally:
        await store.close()
        replica.stop()


async def asked(server: Server, wanted: str, *command: str) -> bool:
    return wanted in str(await asyncio.to_thread(server.ask, *command))


async def checked(node: Server) -> None:
    store = await RedisStore.open(f"redis+cluster://127.0.0.1:{node.port}", app="shop", clock=SystemClock())
    await store.check()
    await store.close()
