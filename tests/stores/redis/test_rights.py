"""The rights that docs/redis.md names are enough for everything, on a real server; and what is left without some."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.stores.redis.servers import Server
from tests.stores.redis.test_lost_replies import AS_FOUND, FIRST_AGAIN, scene
from tests.stores.redis.topologies import clustered, watched
from workfleet.clock import SystemClock
from workfleet.errors import StoreUnavailable
from workfleet.stores.redis.store import RedisStore
from workfleet.testing.contracts.harness import claim, job, jobs
from workfleet.testing.contracts.schedules import schedule

DOCUMENT = Path(__file__).parents[3] / "docs" / "redis.md"
(SAID,) = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("ACL SETUSER")]


@pytest.fixture
def limited(own_server: Server) -> str:
    """The URL for a user who has these rights and no others."""
    assert own_server.ask(*SAID.split()) == b"OK"
    return f"redis://workfleet:password@127.0.0.1:{own_server.port}/0"


async def opened(url: str) -> RedisStore:
    return await RedisStore.open(url, app="shop", clock=SystemClock())


@pytest.mark.full
async def test_every_call(limited: str, own_server: Server) -> None:
    for call in (FIRST_AGAIN | AS_FOUND).values():
        async with scene(limited, own_server) as here:
            await call(here)
    refused = own_server.ask("ACL", "LOG")
    assert refused == [], "a call was refused, and nobody noticed"


async def test_what_is_heard_and_who_is_named(limited: str, own_server: Server) -> None:
    ours, other = await opened(limited), await opened(limited)
    try:
        waiting = asyncio.create_task(ours.schedules.wait(60_000))
        await asyncio.sleep(0)
        await other.schedules.merge([schedule("a")])
        assert await asyncio.wait_for(waiting, 30)
        waiting = asyncio.create_task(ours.jobs.wait(["q"], 60_000))
        await asyncio.sleep(0)
        await other.jobs.enqueue([*jobs("a"), job("grouped", group="g", unique_key="k")])
        assert await asyncio.wait_for(waiting, 30)
        assert len(await claim(ours, 2)) == 2
        async with asyncio.timeout(30):
            while "shop:cQ==:w:w1" not in str(await asyncio.to_thread(own_server.ask, "CLIENT", "LIST")):
                await asyncio.sleep(0.02)
        assert (await other.exam.strangers()).keys() == {"q"}
        findings = await ours.exam.findings()
        assert [each.said for each in findings if each.level == "problem"] == []
        # Its settings are not to be asked for: nothing is claimed of them.
        (kept,) = (each.said for each in findings if each.check == "persistence")
        assert kept.startswith("no append-only file, and it does not tell whether it makes snapshots")
        logged = own_server.ask("ACL", "LOG")
        assert isinstance(logged, list)
        # Only what `doctor` asks and need not know.
        assert {str(each[7], "ascii") for each in logged} <= {"config|get", "config"}
    finally:
        await ours.close()
        await other.close()


async def test_another_application_is_out_of_reach(limited: str) -> None:
    ours = await opened(limited)
    try:
        with pytest.raises(StoreUnavailable, match="NOPERM"):
            await ours._session.connection.command("GET", "other:q:a")
    finally:
        await ours.close()


@pytest.mark.full
async def test_on_a_cluster(tmp_path_factory: pytest.TempPathFactory) -> None:
    with clustered(tmp_path_factory.mktemp) as nodes:
        for node in nodes:
            assert node.ask(*SAID.replace("shop", "{shop}").split(), "+cluster") == b"OK"
        store = await opened(f"redis+cluster://workfleet:password@127.0.0.1:{nodes[0].port}")
        try:
            await store.jobs.enqueue(jobs("a"))
            assert len(await claim(store)) == 1
        finally:
            await store.close()


@pytest.mark.full
async def test_at_sentinels(tmp_path_factory: pytest.TempPathFactory) -> None:
    with watched(tmp_path_factory.mktemp) as made:
        assert made.primary.ask(*SAID.split()) == b"OK"
        (sentinel,) = made.sentinels
        rights = "on >s3cret -@all +@connection +sentinel"
        assert sentinel.ask("ACL", "SETUSER", "asks", *rights.split()) == b"OK"
        where = made.url.replace("://", "://workfleet:password@")
        store = await opened(f"{where}?sentinel_username=asks&sentinel_password=s3cret")
        try:
            await store.jobs.enqueue(jobs("a"))
            assert len(await claim(store)) == 1
        finally:
            await store.close()
