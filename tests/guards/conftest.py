"""The three stores, each on a clock that the test moves: a store is the store of a test that asks for `store`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import pytest_asyncio

from tests.guards.rig import NOW
from tests.stores.redis.servers import Server
from workfleet.ports.stores import Store
from workfleet.stores.memory.store import MemoryStore
from workfleet.stores.redis.store import RedisStore
from workfleet.stores.sqlite.store import SqliteStore
from workfleet.testing.clock import TestClock


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("r"))
    made.start()
    yield made
    made.stop()


@pytest.fixture
def clock() -> TestClock:
    return TestClock(NOW)


@pytest_asyncio.fixture(params=["memory", "sqlite", "redis"])
async def store(request: pytest.FixtureRequest, clock: TestClock) -> AsyncIterator[Store]:
    """An empty store of each kind. Its time is the clock's."""
    made: Store
    if request.param == "redis":
        server: Server = request.getfixturevalue("redis_server")
        server.ask("FLUSHALL")
        made = await RedisStore.open(server.url, app="test", clock=clock, test_now_ms=clock.now_ms)
        yield made
        await made.close()
        return
    with TemporaryDirectory(prefix="wf-") as folder:
        made = MemoryStore("test", clock)
        if request.param == "sqlite":
            made = await SqliteStore.open(Path(folder) / "store.db", app="test", clock=clock, create=True)
        yield made
        await made.close()
