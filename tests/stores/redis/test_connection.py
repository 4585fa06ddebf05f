"""The connection on a real server: what it sends, and what it does when the server or the network fails."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import uvloop

from tests.stores.redis.proxy import Proxy
from tests.stores.redis.servers import Server
from workfleet.clock import SystemClock
from workfleet.errors import StoreUnavailable
from workfleet.stores.redis.address import parse
from workfleet.stores.redis.connection import Connection
from workfleet.stores.redis.dialing import dialer
from workfleet.stores.redis.scripts import Script

_SOON_S = 30


@asynccontextmanager
async def connected(url: str, read_s: float = 10.0) -> AsyncIterator[Connection]:
    address = parse(url)
    connection = Connection(dialer(address, name="test"), store=address.shown, clock=SystemClock(), read_s=read_s)
    try:
        yield connection
    finally:
        await connection.close()


async def until_it_works(call: Callable[[], Awaitable[object]]) -> list[str]:
    """Repeat a call as a loop of the product does; the reasons of the failures."""
    reasons = []
    async with asyncio.timeout(_SOON_S):
        while True:
            try:
                await call()
            except StoreUnavailable as error:
                reasons.append(error.reason)
                await asyncio.sleep(0.02)
            else:
                return reasons


async def test_commands_of_one_turn_go_out_together_and_answers_find_their_callers(server: Server) -> None:
    async with Proxy(server.port) as proxy, connected(proxy.url) as connection:
        await connection.command("PING")
        proxy.sent.clear()
        assert await asyncio.gather(*(connection.command("ECHO", n) for n in range(200))) == [
            str(n).encode() for n in range(200)
        ]
        assert len(proxy.sent) == 1


async def test_a_caller_that_is_gone_disturbs_no_other(server: Server) -> None:
    async with connected(server.url) as connection:
        await connection.command("PING")
        calls = [asyncio.ensure_future(connection.command("ECHO", n)) for n in range(3)]
        await asyncio.sleep(0)
        calls[1].cancel()
        assert await calls[0] == b"0"
        assert await calls[2] == b"2"


async def test_a_script_goes_by_its_hash_and_by_its_text_where_the_server_forgot_it(server: Server) -> None:
    script = Script.load("worker_forget")
    keys, args = ["a", "b", "c", "d", "e"], ("", "", "", "w")
    async with Proxy(server.port) as proxy, connected(proxy.url) as connection:
        for n in range(5):
            server.ask("SCRIPT", "FLUSH")
            proxy.sent.clear()
            await connection.run(script, keys, args)
            assert sum(b"EVALSHA" in sent for sent in proxy.sent) == 1, n
            assert sum(script.text.encode() in sent for sent in proxy.sent) == 1
        proxy.sent.clear()
        await connection.run(script, keys, args)
        assert script.text.encode() not in b"".join(proxy.sent)


async def test_scripts_are_flushed_within_a_batch(server: Server) -> None:
    script = Script.load("key_put")
    async with connected(server.url) as connection:

        async def put(n: int) -> None:
            await connection.run(script, [f"k{n}"], ("", "", "", f"v{n}", 60_000))

        for at in range(0, 200, 20):
            batch = [put(n) for n in range(at, at + 20)]
            await asyncio.gather(*batch[:7], connection.command("SCRIPT", "FLUSH"), *batch[7:])
        read = Script.load("key_get")
        found = await asyncio.gather(*(connection.run(read, [f"k{n}"], ("", "", "")) for n in range(200)))
        assert found == [f"v{n}".encode() for n in range(200)]


async def test_a_killed_connection_fails_who_waits_and_comes_back_by_itself(server: Server) -> None:
    async with connected(server.url) as connection:
        await connection.command("SET", "a", "1")
        calls = [asyncio.ensure_future(connection.command("BLPOP", "nothing", 0)) for _ in range(3)]
        await asyncio.sleep(0.05)
        await asyncio.to_thread(server.ask, "CLIENT", "KILL", "TYPE", "normal")
        for answer in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(answer, StoreUnavailable)
            assert "the connection was lost" in answer.reason
        assert await connection.command("GET", "a") == b"1"


@pytest.mark.parametrize("how", ["frozen", "paused", "packets dropped"])
async def test_a_silent_server_is_given_up_and_found_again(own_server: Server, how: str) -> None:
    async with Proxy(own_server.port) as proxy, connected(proxy.url, read_s=1) as connection:
        await connection.command("SET", "a", "1")
        if how == "frozen":
            own_server.freeze()
        elif how == "paused":
            own_server.ask("CLIENT", "PAUSE", 2_500, "ALL")
        else:
            proxy.silent = True
        calls = await asyncio.gather(*(connection.command("GET", "a") for _ in range(3)), return_exceptions=True)
        assert [str(answer) for answer in calls] == [f"store {proxy.url}: it did not answer within 1 s"] * 3
        own_server.thaw()
        proxy.silent = False
        await until_it_works(lambda: connection.command("GET", "a"))


async def test_a_slow_answer_is_no_silence_while_others_come(server: Server) -> None:
    async with connected(server.url, read_s=1) as connection:
        for n in range(30):
            assert await connection.command("ECHO", n) == str(n).encode()
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_blocked_loop_is_no_silence(server: Server, loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def block() -> None:
        async with Proxy(server.port) as proxy, connected(proxy.url, read_s=0.6) as connection:
            await connection.command("PING")
            ours, theirs = socket.socketpair()
            # In this phase of uvloop's turn, timers come before the next read.
            asyncio.get_running_loop().add_reader(ours, lambda: (ours.recv(1), time.sleep(1.2)))
            asked = asyncio.ensure_future(connection.command("ECHO", "a"))
            await asyncio.sleep(0)
            theirs.send(b"x")
            assert await asked == b"a"
            asyncio.get_running_loop().remove_reader(ours)
            ours.close()
            theirs.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(block())


async def test_restarted_three_times_in_three_seconds(own_server: Server) -> None:
    async with connected(own_server.url) as connection:
        for n in range(3):
            await until_it_works(lambda n=n: connection.command("SET", "a", n))
            own_server.stop()
            reasons = []
            try:
                await connection.command("GET", "a")
            except StoreUnavailable as error:
                reasons.append(error.reason)
            assert "lost" in reasons[0] or "reached" in reasons[0]
            await asyncio.to_thread(own_server.start)
        started = asyncio.get_running_loop().time()
        await until_it_works(lambda: connection.command("PING"))
        assert asyncio.get_running_loop().time() - started < 15


async def test_out_of_memory_is_said_and_passes(own_server: Server) -> None:
    script, read = Script.load("key_put"), Script.load("key_get")
    async with connected(own_server.url) as connection:
        await connection.run(script, ["a"], ("", "", "", "1", 60_000))
        own_server.ask("CONFIG", "SET", "maxmemory", 1)
        for call in (
            connection.command("SET", "b", "1"),
            connection.run(script, ["b"], ("", "", "", "1", 60_000)),
        ):
            with pytest.raises(StoreUnavailable, match=r"out of memory \(maxmemory\) and refuses to write \(OOM\)"):
                await call
        assert await connection.run(read, ["a"], ("", "", "")) == b"1"
        own_server.ask("CONFIG", "SET", "maxmemory", 0)
        assert await connection.run(script, ["b"], ("", "", "", "1", 60_000)) is None


async def test_a_primary_that_becomes_a_replica_is_left_until_it_is_one_again(
    own_server: Server, server: Server
) -> None:
    script = Script.load("key_put")
    async with connected(own_server.url) as connection:
        await connection.command("SET", "a", "1")
        own_server.ask("REPLICAOF", "127.0.0.1", server.port)
        for call in (connection.command("SET", "b", "1"), connection.run(script, ["b"], ("", "", "", "1", 60_000))):
            with pytest.raises(StoreUnavailable, match=r"read-only replica \(READONLY\)"):
                await call
        own_server.ask("REPLICAOF", "NO", "ONE")
        await until_it_works(lambda: connection.command("SET", "b", "2"))
        assert await connection.command("GET", "b") == b"2"


async def test_as_many_clients_as_the_server_allows(own_server: Server) -> None:
    async with connected(own_server.url) as first, connected(own_server.url) as second:
        await first.command("PING")
        await first.command("CONFIG", "SET", "maxclients", 1)
        with pytest.raises(StoreUnavailable, match=r"as many clients as it allows\. Raise its maxclients"):
            await second.command("PING")
        await first.command("CONFIG", "SET", "maxclients", 100)
        await until_it_works(lambda: second.command("PING"))


async def test_after_close_nothing_waits_and_nothing_is_called(own_server: Server) -> None:
    async with connected(own_server.url) as connection:
        await connection.command("PING")
        waiting = asyncio.ensure_future(connection.command("BLPOP", "nothing", 0))
        await asyncio.sleep(0.05)
        await connection.close()
        for call in (waiting, connection.command("PING")):
            with pytest.raises(StoreUnavailable, match="it was closed by this process"):
                await call
    own_server.stop()
    async with connected(own_server.url) as connection:
        trying = asyncio.ensure_future(connection.command("PING"))
        await asyncio.wait({trying})
        again = asyncio.ensure_future(connection.command("PING"))
        await asyncio.sleep(0)
    for call in (trying, again):
        with pytest.raises(StoreUnavailable):
            await call
