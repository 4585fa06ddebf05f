"""What the tests of the Redis store share: a server, and the store on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.stores.redis.servers import Server, server_of
from workfleet.ports.clock import Clock
from workfleet.stores.redis.store import RedisStore
from workfleet.testing.contracts import Opener


@pytest.fixture(scope="session", params=["valkey", pytest.param("redis", marks=pytest.mark.full)])
def binary(request: pytest.FixtureRequest) -> str:
    """Which server. Everything runs on each."""
    kind: str = request.param
    return server_of(kind)


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory, binary: str) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("r"), binary=binary)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def server(shared_server: Server) -> Server:
    """A running, empty server that other tests use as well."""
    shared_server.ask("FLUSHALL")
    return shared_server


@pytest.fixture
def own_server(tmp_path_factory: pytest.TempPathFactory, binary: str) -> Iterator[Server]:
    """A server that a test may stop, break and configure."""
    made = Server(tmp_path_factory.mktemp("r"), binary=binary)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def opener(server: Server) -> Opener:
    async def open_store(app: str, clock: Clock) -> RedisStore:
        return await RedisStore.open(server.url, app=app, clock=clock, test_now_ms=clock.now_ms)

    return open_store
