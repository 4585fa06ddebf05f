"""What the tests with Node share: its packages, its process, a server, and our store on the same queues."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.node.install import NoNode, node_modules
from tests.node.node import Node, NodeRoom
from tests.stores.redis.servers import Server
from workfleet.clock import SystemClock
from workfleet.stores.redis.store import RedisStore


@pytest.fixture(scope="session")
def packages() -> Path:
    """The folder with Node's packages, installed once for all processes and runs."""
    try:
        return node_modules()
    except NoNode as reason:
        pytest.skip(f"without Node's packages: {reason}")


@pytest.fixture(scope="session")
def node_process(packages: Path) -> Iterator[Node]:
    made = Node(packages)
    yield made
    made.close()


@pytest.fixture(scope="session")
def node_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("r"))
    made.start()
    yield made
    made.stop()


@pytest.fixture
def server(node_server: Server) -> Server:
    """A running, empty server."""
    node_server.ask("FLUSHALL")
    return node_server


@pytest_asyncio.fixture
async def node(node_process: Node, server: Server) -> AsyncIterator[NodeRoom]:
    """Node's side on the server; what a test has opened is closed after it."""
    node_process.forget()
    yield NodeRoom(node_process, server.url)
    await node_process.ask("reset")


@pytest_asyncio.fixture
async def store(server: Server) -> AsyncIterator[RedisStore]:
    """Our side, on the queues that Node has too."""
    opened = await RedisStore.open(server.url, app="shop", clock=SystemClock(), prefix="bull")
    yield opened
    await opened.close()
