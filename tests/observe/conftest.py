"""The metric stores, each new for its test: in memory, in a file, and in a database of a real PostgreSQL server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.outbox.postgres_server import PostgresServer, a_server
from workfleet.observe.metrics.memory import MemoryMetricStore
from workfleet.observe.metrics.postgres import PostgresMetricStore
from workfleet.observe.metrics.sqlite import SqliteMetricStore
from workfleet.observe.metrics.store import MetricStore


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    yield from a_server()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MetricStore]:
    store: MetricStore
    if request.param == "memory":
        store = MemoryMetricStore()
    elif request.param == "sqlite":
        store = SqliteMetricStore(tmp_path / "m.db", "shop")
    else:
        store = PostgresMetricStore(request.getfixturevalue("server").database(), "shop")
    yield store
    await store.close()
    await store.close()
