"""What the tests of the Redis store share: a server, and the store on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest

from tests.stores.redis.leaks import left_behind
from tests.stores.redis.servers import Server, server_of
from tests.stores.redis.topologies import clustered, running, watched
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


@dataclass(frozen=True)
class Place:
    """Where a store is opened: its URL, and every server that may hold keys of it."""

    url: str
    servers: Sequence[Server]

    @property
    def single(self) -> bool:
        """One server, with neither sentinels nor other nodes."""
        return "+" not in self.url

    def left_behind(self) -> list[str]:
        """What has neither an owner nor an expiry in the store "shop"."""
        app = "{shop}" if "cluster" in self.url else "shop"
        # The other nodes of a cluster say where its keys are.
        (owner,) = (each for each in self.servers if isinstance(each.ask("EXISTS", f"wf:{app}:queues"), int))
        return left_behind(owner, app)


@pytest.fixture(
    scope="session",
    params=["valkey", *(pytest.param(kind, marks=pytest.mark.full) for kind in ("redis", "sentinel", "cluster"))],
)
def shared_place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One server of each kind, three sentinels with a primary and its replica, a cluster of three nodes."""
    kind: str = request.param
    if kind == "sentinel":
        # Nobody ends here: a primary that a busy machine makes wait must not be given up.
        with watched(tmp_path_factory.mktemp, sentinels=3, down_after_ms=60_000) as made:
            yield Place(made.url, [made.primary])
    elif kind == "cluster":
        with clustered(tmp_path_factory.mktemp) as nodes:
            yield Place(f"redis+cluster://127.0.0.1:{nodes[0].port}", nodes)
    else:
        server = Server(tmp_path_factory.mktemp("r"), binary=server_of(kind))
        with running([server]):
            yield Place(server.url, [server])


@pytest.fixture
def place(shared_place: Place) -> Place:
    """It is empty."""
    for each in shared_place.servers:
        each.ask("FLUSHALL")
    return shared_place


@pytest.fixture
def opener(place: Place) -> Opener:
    """What the conformance suite runs on: every server and topology."""

    async def open_store(app: str, clock: Clock) -> RedisStore:
        return await RedisStore.open(place.url, app=app, clock=clock, test_now_ms=clock.now_ms)

    return open_store
