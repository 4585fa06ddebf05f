"""A server that refuses: each refusal is said in one clear line, nothing is lost, and it goes on by itself after."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.stores.redis.proxy import Proxy
from tests.stores.redis.servers import Server, server_of
from workfleet.clock import SystemClock
from workfleet.errors import StoreUnavailable
from workfleet.model.fleet import LockGrant
from workfleet.ports.jobs import Settled
from workfleet.stores.redis.store import RedisStore
from workfleet.testing.contracts.harness import ManualClock, claim, ended, finish, job, jobs, request, stored

SOON_S = 20


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[RedisStore]:
    store = await RedisStore.open(url, app="shop", clock=SystemClock())
    try:
        yield store
    finally:
        await store.close()


async def refused(call: Callable[[], Awaitable[object]], reason: str) -> None:
    """It is refused for that reason, before long."""
    said = ""
    async with asyncio.timeout(SOON_S):
        while reason not in said:
            try:
                await call()
            except StoreUnavailable as error:
                said = str(error)
            await asyncio.sleep(0.01)


async def soon(call: Callable[[], Awaitable[object]]) -> object:
    """What it answers when the store answers again."""
    async with asyncio.timeout(SOON_S):
        while True:
            try:
                return await call()
            except StoreUnavailable:
                await asyncio.sleep(0.02)


async def goes_on(store: RedisStore) -> None:
    """What was there is worked off, and new jobs too."""
    await soon(lambda: store.jobs.enqueue(jobs("late"), call="late"))
    claimed = await soon(lambda: store.jobs.claim(request(9, token="after")))
    assert isinstance(claimed, list)
    assert [each.id for each in claimed] == ["early", "late"]
    settled = await store.jobs.settle([ended(each) for each in claimed])
    assert settled.applied == [True, True]
    assert (await store.jobs.counts())["q"].completed == 2


async def test_it_loads_its_data(tmp_path_factory: pytest.TempPathFactory, binary: str) -> None:
    slow = ("--key-load-delay", "2000", "--loading-process-events-interval-bytes", "1024")
    server = Server(tmp_path_factory.mktemp("r"), *slow, binary=binary)
    server.start()
    try:
        async with opened(server.url) as store:
            await store.jobs.enqueue(jobs("early"))
            for n in range(1_000):
                server.ask("SET", f"other{n}", "x" * 100)
            server.ask("SAVE")
            server.stop()
            await asyncio.to_thread(server.start)
            await refused(store.check, "the server is loading its data (LOADING). It is asked again until it is ready")
            await goes_on(store)
    finally:
        server.stop()


async def test_a_script_of_somebody_does_not_end(own_server: Server) -> None:
    own_server.ask("CONFIG", "SET", "lua-time-limit", 50)
    async with opened(own_server.url) as store, opened(own_server.url) as other:
        await store.jobs.enqueue(jobs("early"))
        forever = asyncio.create_task(asyncio.to_thread(own_server.ask, "EVAL", "while true do end", 0))
        busy = "busy with a script of somebody (BUSY). It is asked again; SCRIPT KILL on the server ends it"
        await refused(store.check, busy)
        # Who comes anew meanwhile is told the same, and is heard and hears afterwards.
        with pytest.raises(StoreUnavailable, match=r"\(BUSY\)"):
            async with opened(own_server.url):
                pass
        own_server.ask("SCRIPT", "KILL")
        await forever
        waiting = asyncio.create_task(other.schedules.wait(60_000))
        await goes_on(store)
        waiting.cancel()


@pytest.mark.parametrize("what", ["snapshot", "log"])
async def test_its_disk_is_full(own_server: Server, what: str) -> None:
    async with opened(own_server.url) as store:
        await store.jobs.enqueue(jobs("early"))
        if what == "snapshot":
            # A folder stands where the file should be.
            (own_server.folder / "dump.rdb").mkdir()
            own_server.ask("CONFIG", "SET", "save", "1 1")
            own_server.ask("BGSAVE")
        else:
            own_server.ask("CONFIG", "SET", "appendonly", "yes")
            await written(own_server.folder)
            limit(own_server, 100)
        cannot = "the server cannot save its data and refuses to write (MISCONF). Look at the server's log and disk"
        await refused(store.check, cannot)
        await refused(lambda: store.jobs.enqueue(jobs("late"), call="late"), cannot)
        assert (await store.jobs.counts())["q"].waiting == 1
        if what == "snapshot":
            (own_server.folder / "dump.rdb").rmdir()
            own_server.ask("BGSAVE")
        else:
            limit(own_server, resource.RLIM_INFINITY)
        await goes_on(store)


def limit(server: Server, size: int) -> None:
    """So large may the server's files be."""
    _, most = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size if size > 0 else most, most))


async def written(folder: Path) -> None:
    async with asyncio.timeout(SOON_S):
        while not any(each.stat().st_size for each in folder.glob("appendonlydir/*.rdb")):
            await asyncio.sleep(0.02)


async def test_it_has_no_memory_left(own_server: Server) -> None:
    async with opened(own_server.url) as store:
        await store.jobs.enqueue(jobs("early"))
        (held,) = await claim(store)
        own_server.ask("CONFIG", "SET", "maxmemory", 1)
        oom = "the server is out of memory (maxmemory) and refuses to write (OOM). Give it more memory"
        for call in (
            lambda: store.jobs.enqueue(jobs("late"), call="late"),
            lambda: store.locks.acquire("l", "me", 1_000),
        ):
            with pytest.raises(StoreUnavailable) as error:
                await call()
            assert oom in str(error.value)
        # Nothing of a refused call has happened.
        record = await stored(store, "early")
        assert (record.state.value, record.token) == ("active", held.token)
        assert await store.jobs.get(["late"]) == [None]
        assert await store.locks.held() == []
        # What has begun with a command that takes no memory is carried out to its end, else nothing of it is.
        (settled,) = await asyncio.gather(store.jobs.settle([ended(held)]), return_exceptions=True)
        refused = isinstance(settled, StoreUnavailable) and oom in str(settled)
        assert refused or settled == Settled([True], [])
        assert (await stored(store, "early")).state.value == ("active" if refused else "completed")
        own_server.ask("CONFIG", "SET", "maxmemory", 0)
        assert (await store.jobs.settle([ended(held)])).applied == [True]
        assert (await stored(store, "early")).state.value == "completed"


async def test_it_allows_no_more_clients(own_server: Server) -> None:
    async with opened(own_server.url) as store:
        await store.jobs.enqueue(jobs("early"))
        # It will count itself, the store's two, and nobody else.
        own_server.ask("CONFIG", "SET", "maxclients", 2)
        with pytest.raises(StoreUnavailable, match=r"as many clients as it allows\. Raise its maxclients"):
            async with opened(own_server.url):
                pass
        await store.check()
        await store._session.connection.command("CONFIG", "SET", "maxclients", 100)
        await goes_on(store)


@pytest.fixture
def guarded(own_server: Server) -> Server:
    own_server.ask("ACL", "SETUSER", "me", "on", ">old", "~*", "&*", "+@all")
    return own_server


def login(server: Server, password: str) -> str:
    return f"redis://me:{password}@127.0.0.1:{server.port}/0"


async def test_its_password_is_changed_while_we_work(guarded: Server) -> None:
    async with opened(login(guarded, "old")) as store:
        await store.jobs.enqueue(jobs("early"))
        guarded.ask("ACL", "SETUSER", "me", "resetpass", ">n3w")
        # Who is connected stays so.
        await store.check()
        guarded.ask("CLIENT", "KILL", "USER", "me")
        await refused(store.check, "the server refuses the user or the password (WRONGPASS). Check them in its URL")
        guarded.ask("ACL", "SETUSER", "me", ">old")
        await goes_on(store)


async def test_a_password_is_set_while_we_work(own_server: Server) -> None:
    async with opened(own_server.url) as store:
        own_server.ask("CONFIG", "SET", "requirepass", "hunter2")
        async with opened(f"redis://:hunter2@127.0.0.1:{own_server.port}") as admin:
            await admin._session.connection.command("CLIENT", "KILL", "TYPE", "normal")
            await refused(store.check, "the server wants a password (NOAUTH). Check the user and the password")
            await soon(lambda: admin._session.connection.command("CONFIG", "SET", "requirepass", ""))
            await store.jobs.enqueue(jobs("early"))
            await goes_on(store)


async def test_a_right_is_taken_while_we_work(guarded: Server) -> None:
    async with opened(login(guarded, "old")) as store:
        await store.jobs.enqueue(jobs("early"))
        guarded.ask("ACL", "SETUSER", "me", "-evalsha", "-eval")
        with pytest.raises(StoreUnavailable, match=r"lacks a right on the server \(NOPERM: .* the 'evalsha' command\)"):
            await store.jobs.claim(request(1))
        guarded.ask("ACL", "SETUSER", "me", "+@all")
        await goes_on(store)


async def test_the_user_is_gone(guarded: Server) -> None:
    async with opened(login(guarded, "old")) as store:
        await store.jobs.enqueue(jobs("early"))
        guarded.ask("ACL", "DELUSER", "me")
        await refused(store.check, "(WRONGPASS)")
        guarded.ask("ACL", "SETUSER", "me", "on", ">old", "~*", "&*", "+@all")
        await goes_on(store)


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-ttl"])
async def test_a_server_that_evicts_is_refused(own_server: Server, policy: str) -> None:
    own_server.ask("CONFIG", "SET", "maxmemory-policy", policy)
    with pytest.raises(StoreUnavailable) as refused:
        async with opened(own_server.url):
            pass
    reason = f"it deletes keys when its memory is full (maxmemory-policy {policy}), so jobs would be lost"
    advice = "Set maxmemory-policy to noeviction on the server"
    assert str(refused.value) == f"store {own_server.url}: {reason}. {advice}"
    assert own_server.ask("DBSIZE") == 0


@pytest.fixture
async def versioned(server: Server) -> AsyncIterator[Callable[[str], str]]:
    """The URL of a server that says it has that version."""
    async with Proxy(server.port) as proxy:

        def of(version: str) -> str:
            def changed(said: bytes) -> bytes:
                start = said.find(b"redis_version:")
                if start < 0:
                    return said
                # A reply says its length: the number takes the place of as many signs.
                begin, end = start + len(b"redis_version:"), said.index(b"\r", start)
                return said[:begin] + version.encode().ljust(end - begin, b"9") + said[end:]

            proxy.changed = changed
            return proxy.url

        yield of


@pytest.mark.parametrize("version", ["6.0.9", "5.9.1", "2.8.9"])
async def test_a_server_that_is_too_old_is_refused(versioned: Callable[[str], str], version: str) -> None:
    with pytest.raises(StoreUnavailable, match=rf"its version is {version}9*\. Use Redis 6\.2 or newer, or Valkey"):
        async with opened(versioned(version)):
            pass


@pytest.mark.parametrize("version", ["6.2.0", "7.0.1", "10.1"])
async def test_a_newer_one_is_not(versioned: Callable[[str], str], version: str) -> None:
    async with opened(versioned(version)) as store:
        await store.check()


async def test_it_comes_back_empty(own_server: Server) -> None:
    """Nothing is there any more, and nothing goes wrong for it: fences grow on, what was held is lost."""
    async with opened(own_server.url) as store:
        await store.jobs.enqueue(jobs("a b"), call="c")
        held = await claim(store, 2)
        first = await store.locks.acquire("l", "me", 60_000)
        assert isinstance(first, LockGrant)
        own_server.stop()
        await asyncio.to_thread(own_server.start)
        assert await soon(lambda: store.locks.renew("l", "me", 60_000)) is None
        again = await store.locks.acquire("l", "you", 60_000)
        assert isinstance(again, LockGrant)
        assert again.fence > first.fence
        claims = [each.claim for each in held]
        assert await store.jobs.renew(claims, 1_000) == [False, False]
        assert await store.jobs.report(held[0].claim, lines=["x"], call="r") is False
        assert (await store.jobs.settle([ended(each) for each in held])).applied == [False, False]
        assert await store.jobs.get(["a", "b"]) == [None, None]
        assert [each.created for each in await store.jobs.enqueue(jobs("a b"), call="c")] == [True, True]
        await finish(store, await claim(store, 2))
        assert (await store.jobs.counts())["q"].completed == 2


async def test_its_clock_jumps(server: Server) -> None:
    """As after a failover to a machine whose clock is wrong: fences grow, no job has two claims, none is stuck."""
    clock = ManualClock()
    store = await RedisStore.open(server.url, app="shop", clock=clock, test_now_ms=clock.now_ms)
    try:
        fences = []
        await store.jobs.enqueue([job("a"), job("b", delay_ms=1_000)])
        (held,) = await claim(store, lease_ms=30_000)
        for jump in (0, 3_600_000, -7_200_000, 86_400_000 * 365, -86_400_000 * 730):
            await clock.advance(jump)
            grant = await store.locks.acquire("l", f"at {jump}", 10)
            if isinstance(grant, LockGrant):
                fences.append(grant.fence)
                await store.locks.release("l", None)
            assert await claim(store, 5) == [] or jump > 0
        assert len(fences) == 5
        assert sorted(set(fences)) == fences
        assert await store.jobs.renew([held.claim], 30_000) == [True]
        assert (await store.jobs.settle([ended(held)])).applied == [True]
    finally:
        await store.close()


def test_which_servers_there_are() -> None:
    """The second one is skipped, with the reason, where it is not installed."""
    assert server_of("valkey")
