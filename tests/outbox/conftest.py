"""Both kinds of databases that hold an outbox: real ones, new for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.outbox.database import Database, Postgres, Sqlite
from tests.outbox.postgres_server import PostgresServer, a_server


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    yield from a_server()


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
