"""A bad network between store and server: slow, half-open, cut in the middle, gone for long. Reads are bounded,
connecting goes on for ever, and never in a circle."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.stores.redis.proxy import Proxy
from tests.stores.redis.servers import Server, free_port
from tests.stores.redis.test_connection import connected, until_it_works
from workfleet.clock import SystemClock
from workfleet.errors import StoreUnavailable
from workfleet.stores.redis import link, reconnecting
from workfleet.stores.redis.address import parse
from workfleet.stores.redis.connection import Connection
from workfleet.stores.redis.dialing import dialer
from workfleet.stores.redis.store import RedisStore
from workfleet.testing.contracts.harness import claim, ended, job, jobs
from workfleet.testing.contracts.schedules import schedule

MIB = 1 << 20


@pytest.fixture
async def proxy(server: Server) -> AsyncIterator[Proxy]:
    async with Proxy(server.port) as made:
        yield made


async def test_a_large_value_goes_up_and_down_slowly(proxy: Proxy) -> None:
    """Slower than the time within which an answer must come: what gets on is no silence."""
    value = b"x" * (8 * MIB)
    async with connected(proxy.url, read_s=1.5) as connection:
        await connection.command("PING")
        # What the system holds ready to send cannot be seen.
        connection._link._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MIB // 16)
        proxy.pace = (MIB // 16, 0.02)
        started = time.monotonic()
        await connection.command("SET", "a", value)
        up_s = time.monotonic() - started
        assert await connection.command("GET", "a") == value
        assert up_s > 1.5
        assert proxy.connections == 1


async def test_a_large_value_that_gets_stuck_is_given_up(proxy: Proxy) -> None:
    async with connected(proxy.url, read_s=1.5) as connection:
        await connection.command("PING")
        proxy.pace = (1 << 10, 3_600)
        with pytest.raises(StoreUnavailable, match=r"it did not answer within 1\.5 s"):
            await asyncio.wait_for(connection.command("SET", "a", b"x" * (16 * MIB)), 30)
        proxy.pace = None
        await until_it_works(lambda: connection.command("SET", "a", "small"))


@pytest.mark.full
async def test_a_payload_of_64_mib(server: Server) -> None:
    payload = b'"' + b"x" * (64 * MIB - 2) + b'"'
    store = await RedisStore.open(server.url, app="shop", clock=SystemClock())
    try:
        await store.jobs.enqueue([job("large", payload=payload), job("small")])
        large, small = await claim(store, 2)
        assert (large.id, large.payload, small.id) == ("large", payload, "small")
        assert (await store.jobs.settle([ended(large), ended(small)])).applied == [True, True]
    finally:
        await store.close()


async def test_a_reply_that_comes_in_pieces(proxy: Proxy) -> None:
    async with connected(proxy.url, read_s=1.5) as connection:
        await connection.command("SET", "a", "x" * 40)
        proxy.pace = (1, 0.05)
        assert await connection.command("GET", "a") == b"x" * 40


@pytest.mark.parametrize("rest", ["never comes", "is nonsense"])
async def test_a_reply_that_begins_and(proxy: Proxy, rest: str) -> None:
    async with connected(proxy.url, read_s=1.5) as connection:
        await connection.command("SET", "a", "x" * 100)
        proxy.changed = (lambda said: said[:20]) if rest == "never comes" else (lambda _: b"?\r\nwhat\r\n")
        with pytest.raises(StoreUnavailable) as refused:
            await connection.command("GET", "a")
        assert ("did not answer" if rest == "never comes" else "the connection was lost (Protocol error") in str(
            refused.value
        )
        proxy.changed = None
        await until_it_works(lambda: connection.command("GET", "a"))


@pytest.mark.full
async def test_who_only_listens_notices_a_dead_network(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "_PING_S", 0.2)
    monkeypatch.setattr("workfleet.stores.redis.listening.READ_S", 2.0)
    store = await RedisStore.open(proxy.url, app="shop", clock=SystemClock())
    other = await RedisStore.open(f"redis://127.0.0.1:{proxy._to}", app="shop", clock=SystemClock())
    try:
        waiting = asyncio.create_task(store.schedules.wait(60_000))
        await asyncio.sleep(3)
        assert proxy.connections == 2, "a live network is not given up"
        proxy.silent = True
        await asyncio.sleep(0.05)
        await other.schedules.merge([schedule("a")])
        async with asyncio.timeout(30):
            while proxy.connections == 2:
                await asyncio.sleep(0.05)
        proxy.silent = False
        # The message is lost. Hearing again it looks again.
        assert await asyncio.wait_for(waiting, 40)
        waiting = asyncio.create_task(store.schedules.wait(60_000))
        await other.schedules.merge([schedule("b")])
        assert await asyncio.wait_for(waiting, 40)
    finally:
        await store.close()
        await other.close()


async def test_a_server_that_hangs_up_on_everybody_is_not_asked_in_a_circle() -> None:
    """It lets one in, and ends the connection: at once, or after a moment."""
    met = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal met
        met += 1
        while b"LIB-VER" not in await reader.read(65_536):
            writer.write(b"+OK\r\n")
        writer.write(b"+OK\r\n" * 2)
        await asyncio.sleep(0.01 * (met % 2))
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    try:
        async with connected(f"redis://127.0.0.1:{port}") as connection:
            with pytest.raises(StoreUnavailable):
                await asyncio.wait_for(connection.command("PING"), 30)
            await asyncio.sleep(3)
            assert 2 <= met < 40
    finally:
        listening.close()


class Fast(SystemClock):
    """Sleeping takes no time, and is counted."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


async def test_it_connects_again_and_again_for_ever() -> None:
    """Ten minutes without a server: capped, jittered, one attempt at a time, and each caller is told soon."""
    clock, address = Fast(), parse(f"redis://127.0.0.1:{free_port()}/0")
    connection = Connection(dialer(address, name="test"), store=address.shown, clock=clock)
    told = 0
    while sum(clock.slept) < 600:
        with pytest.raises(StoreUnavailable, match=r"it cannot be reached \(Error 111"):
            await connection.command("PING")
        told += 1
    await connection.close()
    steady = clock.slept[10:]
    assert max(steady) <= reconnecting._LONGEST_S
    assert 0.8 < sum(steady) / len(steady) < 1.2, "full jitter: half of the longest on average"
    assert abs(len(clock.slept) - told) <= 1
    assert len(set(steady)) == len(steady)


@pytest.fixture
def durable(tmp_path_factory: pytest.TempPathFactory, binary: str) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("r"), "--appendonly", "yes", "--appendfsync", "always", binary=binary)
    made.start()
    yield made
    made.stop()


async def test_the_server_is_away_for_a_while(durable: Server) -> None:
    """No call waits long, nothing is lost, and the first call after it works."""
    store = await RedisStore.open(durable.url, app="shop", clock=SystemClock())
    try:
        await store.jobs.enqueue(jobs("a b"))
        (held,) = await claim(store)
        durable.stop()
        longest = 0.0
        for _ in range(10):
            started = time.monotonic()
            with pytest.raises(StoreUnavailable):
                await store.check()
            longest = max(longest, time.monotonic() - started)
            await asyncio.sleep(0.2)
        assert longest < 8
        await asyncio.to_thread(durable.start)
        await until_it_works(store.check)
        assert (await store.jobs.settle([ended(held)])).applied == [True]
        assert [each.id for each in await claim(store)] == ["b"]
    finally:
        await store.close()


async def test_it_is_not_there_at_the_start(own_server: Server) -> None:
    own_server.stop()
    for _ in range(3):
        started = time.monotonic()
        with pytest.raises(
            StoreUnavailable,
            match=r"it cannot be reached .* Check its URL, or REDIS_HOST and REDIS_PORT, and that the serv",
        ):
            await RedisStore.open(own_server.url, app="shop", clock=SystemClock())
        assert time.monotonic() - started < 8
    own_server.start()
    store = await RedisStore.open(own_server.url, app="shop", clock=SystemClock())
    await store.close()
