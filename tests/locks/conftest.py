"""Benches for the tests of locks: on each store, and on a clock that the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.locks.bench import NOW, Bench
from tests.stores.redis.servers import Server
from workfleet.clock import SystemClock
from workfleet.stores.open import open_store
from workfleet.testing.clock import TestClock


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("r"))
    made.start()
    yield made
    made.stop()


@pytest.fixture(params=["memory", "sqlite", "redis"])
async def real(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    """On each store, in real time."""
    clock = SystemClock()
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    if request.param == "redis":
        server: Server = request.getfixturevalue("server")
        server.ask("FLUSHALL")
        url = server.url
    store = await open_store(url, app="test", clock=clock, create=True)
    yield Bench(store, clock)
    await store.close()


@pytest.fixture
async def bench() -> Bench:
    """In memory, on a clock that the test moves."""
    clock = TestClock(NOW)
    return Bench(await open_store("memory://", app="test", clock=clock, create=True), clock)
