"""Where the locks are: in the store, or in the Redis client that `lock.client` names; and who may say so."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.stores.redis.servers import Server
from workfleet import (
    App,
    Client,
    ConfigError,
    Job,
    LockBusy,
    LockModule,
    Locks,
    LockUnavailable,
    Module,
    RedisClient,
    RedisModule,
    StoreUnavailable,
)
from workfleet.app.composition import compose
from workfleet.clock import SystemClock
from workfleet.stores.open import open_store
from workfleet.testing import Fleet


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("r"))
    made.start()
    yield made
    made.stop()


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project without settings; the start of a process in it says nothing of this machine's."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)


def renewed_ms(lock: Any) -> int:
    """When somebody else than the event loop has renewed it."""
    found: int = lock._board.renewed_ms(lock._slot)
    return found


def names_of(server: Server, database: int) -> set[str]:
    """The keys of a database that belong to locks."""

    async def look() -> set[str]:
        store = await open_store(
            f"redis://127.0.0.1:{server.port}/{database}", app="shop", clock=SystemClock(), create=False
        )
        try:
            return {grant.name for grant in await store.locks.held()}
        finally:
            await store.close()

    return asyncio.run(look())


async def test_the_client_of_the_document_holds_the_locks(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the document: default in database 0, lock in database 5. Locks that are injected, of a guard, and of the
    client that a handler asks for are in the same place."""
    monkeypatch.setenv("WORKER_STORE", f"sqlite:///{tmp_path}/store.db")
    monkeypatch.setenv("REDIS_HOST", "127.0.0.1")
    monkeypatch.setenv("REDIS_PORT", str(server.port))
    app = App(
        "shop", modules=[RedisModule(clients={"lock": RedisClient(db=5)}), LockModule(client="lock", key_prefix="mine")]
    )
    seen: list[set[str]] = []

    @app.schedule("work", run_on_start=True)
    async def work(locks: Locks, client: Client) -> None:
        async with locks.lock("a"), client.locks.lock("b"):
            seen.append(await asyncio.to_thread(names_of, server, 5))
            seen.append(await asyncio.to_thread(names_of, server, 0))
            with pytest.raises(LockBusy):
                async with client.locks.lock("a", wait="0s"):
                    raise AssertionError("never entered")

    await app.run(until_idle=True)
    assert seen == [{"mine:a", "mine:b"}, set()]
    assert await asyncio.to_thread(names_of, server, 5) == set()


async def test_a_thread_keeps_a_lock_while_code_blocks_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKER_STORE", f"sqlite:///{tmp_path}/store.db")
    app, checked = App("shop"), list[str]()

    @app.schedule("work", run_on_start=True)
    async def work(locks: Locks) -> None:
        async with locks.lock("a", ttl="3s") as lock:
            noted_ms = renewed_ms(lock)
            while renewed_ms(lock) == noted_ms:
                await asyncio.sleep(0.05)  # the thread has only just started as well
            for _ in range(40):
                time.sleep(0.1)  # the loop never gets its turn
                lock.check()
            checked.append("to the end")

    await app.run(until_idle=True)
    assert checked == ["to the end"]


async def test_default_is_known_to_a_client_without_the_code(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKER_LOCK__CLIENT", "default")
    monkeypatch.setenv("REDIS_URL", f"redis://127.0.0.1:{server.port}/3")
    async with Client(f"sqlite:///{tmp_path}/store.db", app="shop") as client:
        async with client.locks.lock("a"):
            assert await asyncio.to_thread(names_of, server, 3) == {"lock:a"}
            assert await client.locks.is_locked("a") == "yes"
        server.stop()
        assert await client.locks.is_locked("a") == "unknown"
        with pytest.raises(LockUnavailable):
            async with client.locks.lock("a"):
                raise AssertionError("never entered")


async def test_another_one_is_not_guessed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKER_LOCK__CLIENT", "lock")
    async with Client(f"sqlite:///{tmp_path}/store.db", app="shop") as client:
        with pytest.raises(ConfigError, match="the application's code says where the Redis client 'lock' is"):
            _ = client.locks


def test_the_stores_own_client_is_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKER_STORE", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("WORKER_QUEUE_PREFIX", "bull")
    assert compose(App("shop", modules=[LockModule(client="default")])).locks_url is None
    other = App("shop", modules=[RedisModule(clients={"lock": RedisClient(db=5)}), LockModule(client="lock")])
    assert compose(other).locks_url == "redis://127.0.0.1:1/0?db=5"


def test_a_client_that_nothing_names_is_found_at_the_start() -> None:
    app = App("shop", modules=[RedisModule(clients={"cache": "redis://127.0.0.1:1/0"}), LockModule(client="lock")])
    with pytest.raises(ConfigError, match="RedisModule names no client 'lock', only cache, default") as wrong:
        compose(app)
    (problem,) = wrong.value.problems
    assert (problem.name, problem.value) == ("lock.client", "lock")


async def test_what_a_factory_cannot_say() -> None:
    app = App("shop", modules=[LockModule(factory=lambda: {"client": "default"})])
    with pytest.raises(ConfigError, match="no factory can say where the locks are"):
        async with Fleet(app):
            pass


async def test_in_memory_a_fleet_of_a_test_holds_its_locks_itself() -> None:
    app = App("shop", modules=[LockModule(client="lock")])

    @app.handler("work")
    async def work(job: Job[None], locks: Locks) -> str:
        async with locks.lock("a"):
            return await locks.is_locked("a")

    async with Fleet(app) as fleet:
        ref = await fleet.enqueue(work.job(None))
        await fleet.run_until_idle()
        assert await ref.result() == "yes"


async def test_a_store_in_memory_that_is_no_test_refuses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKER_STORE", "memory://")
    app = App("shop", modules=[LockModule(client="default")])
    with pytest.raises(ConfigError, match="a store in memory holds its locks itself"):
        await app.run(until_idle=True)


async def test_a_server_of_the_locks_that_is_away_stops_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
) -> None:
    monkeypatch.setenv("WORKER_STORE", f"sqlite:///{tmp_path}/store.db")
    modules: list[Module] = [
        RedisModule(clients={"default": f"redis://127.0.0.1:{unused_tcp_port}/0"}),
        LockModule(client="default"),
    ]
    with pytest.raises(StoreUnavailable, match=str(unused_tcp_port)):
        await App("shop", modules=modules).run(until_idle=True)


async def test_handed_out_clients_have_the_locks_of_a_factory() -> None:
    app = App("shop", modules=[LockModule(factory=lambda: {"key_prefix": "made"})])
    found: list[str] = []

    @app.handler("work")
    async def work(job: Job[None], client: Client, locks: Locks) -> None:
        async with client.locks.lock("a"):
            found.extend(grant.name for grant in await locks.list())

    async with Fleet(app) as fleet:
        await fleet.enqueue(work.job(None))
        await fleet.run_until_idle()
    assert found == ["made:a"]
