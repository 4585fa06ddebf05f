"""Workers are seen by BullMQ's tools: the names of connections, in CLIENT LIST."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio

from tests.stores.redis.bullmq_side import texts
from tests.stores.redis.proxy import Proxy
from tests.stores.redis.servers import Server
from workfleet import stores
from workfleet.clock import SystemClock
from workfleet.ports.jobs import ClaimRequest, Want
from workfleet.stores.redis.names import shown_name
from workfleet.stores.redis.store import RedisStore

_SOON_S = 30


@pytest_asyncio.fixture
async def store(server: Server) -> AsyncIterator[RedisStore]:
    opened = await RedisStore.open(server.url, app="shop", clock=SystemClock(), prefix="bull")
    yield opened
    await opened.close()


def names(server: Server) -> list[str]:
    """Those of workers."""
    listed = server.ask("CLIENT", "LIST")
    assert isinstance(listed, bytes)
    return sorted(name for name in re.findall(r" name=(\S+)", listed.decode()) if name.startswith("bull:"))


async def until_shown(server: Server, expected: Sequence[str]) -> None:
    async with asyncio.timeout(_SOON_S):
        while names(server) != list(expected):
            await asyncio.sleep(0.02)


async def claim(store: RedisStore, worker: str, token: str, *queues: str) -> None:
    await store.jobs.claim(ClaimRequest(worker, token, 30_000, tuple(Want(queue, 1) for queue in queues)))


async def test_who_claims_is_shown_for_each_queue(store: RedisStore, server: Server) -> None:
    assert names(server) == []
    await claim(store, "w1", "t1", "mail", "café")
    await claim(store, "w1", "t2", "mail")
    expected = ["bull:Y2Fmw6k=:w:w1", "bull:bWFpbA==:w:w1"]
    await until_shown(server, expected)
    await claim(store, "w2", "t3", "mail")
    await until_shown(server, [*expected, "bull:bWFpbA==:w:w2"])
    await store.close()
    await until_shown(server, [])


async def test_it_is_shown_again_after_a_loss(store: RedisStore, server: Server) -> None:
    await claim(store, "w1", "t1", "mail")
    await until_shown(server, ["bull:bWFpbA==:w:w1"])
    before = server.ask("CLIENT", "LIST")
    assert isinstance(before, bytes)
    (lost,) = re.findall(rb"^id=(\d+) .* name=bull:", before, re.MULTILINE)
    assert server.ask("CLIENT", "KILL", "ID", lost.decode()) == 1
    async with asyncio.timeout(_SOON_S):
        while names(server) != ["bull:bWFpbA==:w:w1"] or lost in texts_of_ids(server):
            await asyncio.sleep(0.02)


@pytest.mark.full
async def test_it_is_shown_again_after_a_loss_that_nobody_was_told_of(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores.redis.names, "_PING_S", 0.2)
    async with Proxy(server.port) as proxy:
        store = await RedisStore.open(proxy.url, app="shop", clock=SystemClock(), prefix="bull")
        try:
            await claim(store, "w1", "t1", "mail")
            await until_shown(server, ["bull:bWFpbA==:w:w1"])
            async with asyncio.timeout(_SOON_S):
                while not proxy.calls["PING"] or proxy.unanswered["PING"]:
                    await asyncio.sleep(0.01)
            met, proxy.silent = proxy.connections, True
            async with asyncio.timeout(_SOON_S):
                while proxy.connections == met:
                    await asyncio.sleep(0.05)
            # The server has been told of the end, as it would be by its own keepalive.
            proxy.silent = False
            await until_shown(server, ["bull:bWFpbA==:w:w1"])
        finally:
            await store.close()


def texts_of_ids(server: Server) -> list[bytes]:
    listed = server.ask("CLIENT", "LIST")
    assert isinstance(listed, bytes)
    return re.findall(rb"^id=(\d+) ", listed, re.MULTILINE)


async def test_who_only_adds_is_no_worker(store: RedisStore, server: Server) -> None:
    await store.jobs.counts()
    await store.now_ms()
    assert names(server) == []
    assert texts(server.ask("KEYS", "*")) == []


def test_names_that_the_server_would_refuse() -> None:
    assert shown_name("bull", "q", "rack 7\n#é%") == "bull:cQ==:w:rack%207%0A#%C3%A9%25"
    assert shown_name("{shop}", "q", "w") == "{shop}:cQ==:w:w"
