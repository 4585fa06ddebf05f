"""The application's own Redis clients and database, with real servers that stop, hang and come back."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.app.working import Worker, start_problems
from tests.observe.manual_clock import ManualClock
from tests.outbox.postgres_server import PostgresServer
from tests.stores.redis.servers import Server
from workfleet import App, Health, HealthModule, RedisModule
from workfleet.health.database import DatabaseIndicator, ask_postgres, look_at_file
from workfleet.health.indication import IndicatorReport
from workfleet.health.redis import RedisIndicator

# Redis


async def test_a_stopped_redis_is_named_and_makes_the_worker_unready(redis_server: Server, project: Path) -> None:
    app = App("shop", modules=[RedisModule(clients={"cache": redis_server.url}), HealthModule(cache_ttl="0s")])
    async with Worker(app) as worker:
        health = await worker.get(Health)
        said = await health.check_one("redis")
        assert (said.status, said.critical, list(said.facts)) == ("healthy", True, ["cache_ms"])
        redis_server.stop()
        said = await health.check_one("redis")
        assert (said.status, said.facts) == ("unhealthy", {"cache_ms": None})
        assert said.reason.startswith("client cache")
        report = await health.check()
        assert (report.status, [each.name for each in report.ill if each.name != "event-loop"]) == (
            "unhealthy", ["redis"],
        )  # fmt: skip


async def test_a_redis_that_hangs_is_named_in_time_beside_one_that_works(
    redis_server: Server, project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = Server(tmp_path_factory.mktemp("o"))
    other.start()
    clients = {"cache": redis_server.url, "lock": other.url}
    module = HealthModule(cache_ttl="0s", timeout="2500ms")
    try:
        async with Worker(App("shop", modules=[RedisModule(clients=clients), module])) as worker:
            health = await worker.get(Health)
            redis_server.freeze()
            said = await health.check_one("redis")
            assert (said.status, said.reason) == ("unhealthy", "client cache has no answer in 2 s")
            assert (said.facts["cache_ms"], said.facts["lock_ms"] is not None) == (None, True)
            redis_server.thaw()
            async with asyncio.timeout(30):
                while (await health.check_one("redis")).status != "healthy":
                    await asyncio.sleep(0.05)
    finally:
        other.stop()


async def test_which_clients_are_watched_and_whether_they_are_critical(redis_server: Server, project: Path) -> None:
    redis = RedisModule(clients={"cache": redis_server.url, "lock": f"{redis_server.url[:-1]}5"})
    module = HealthModule(redis_clients=["lock"], critical=["pools"])
    async with Worker(App("shop", modules=[redis, module])) as worker:
        said = await (await worker.get(Health)).check_one("redis")
    assert (list(said.facts), said.critical) == (["lock_ms"], False)


async def test_a_client_that_nobody_names_stops_the_start(redis_server: Server, project: Path) -> None:
    modules = [RedisModule(clients={"cache": redis_server.url}), HealthModule(redis_clients=["cash"])]
    assert await start_problems(App("shop", modules=modules)) == {
        "WORKER_HEALTH__REDIS_CLIENTS": "RedisModule names no client 'cash', only cache, default"
    }


async def test_without_clients_there_is_nothing_to_watch(redis_server: Server, project: Path) -> None:
    off = App("shop", modules=[RedisModule(clients={"cache": redis_server.url}), HealthModule(redis=False)])
    for app in (App("shop"), off):
        async with Worker(app) as worker:
            report = await (await worker.get(Health)).check()
            assert "redis" not in [each.name for each in report.indicators]


@pytest.mark.parametrize(
    ("lenient", "status"), [((), "unhealthy"), (("unhealthy",), "degraded"), (("degraded", "unhealthy"), "healthy")]
)
async def test_the_thresholds_say_how_long_a_ping_may_take(
    redis_server: Server, project: Path, lenient: tuple[str, ...], status: str
) -> None:
    health = HealthModule(cache_ttl="0s", timeout="1m", thresholds={f"redis_{level}": "1m" for level in lenient})
    redis = RedisModule(clients={"cache": redis_server.url})
    async with Worker(App("shop", modules=[redis, health])) as worker:
        service = await worker.get(Health)
        assert (await service.check_one("redis")).status == "healthy"
        redis_server.freeze()
        check = asyncio.create_task(service.check_one("redis"))
        await asyncio.sleep(1.2)
        redis_server.thaw()
        assert (await check).status == status


@pytest.mark.parametrize(("took_s", "status"), [(0.0625, "healthy"), (0.125, "degraded"), (1.0, "unhealthy")])
async def test_a_slow_ping(took_s: float, status: str) -> None:
    clock = ManualClock()

    async def ping() -> None:
        clock.pass_time(took_s)

    async def pings() -> Any:
        return {"cache": ping}

    said = await RedisIndicator(pings, clock, within_ms=5_000).check()
    assert said.status == status
    assert said.reason == ("" if status == "healthy" else f"client cache waits {took_s * 1000:.0f} ms for a ping")
    lax = RedisIndicator(pings, clock, within_ms=5_000, degraded_from_ms=2_000, unhealthy_from_ms=3_000)
    assert (await lax.check()).status == "healthy"


# The database


def variables(url: str) -> dict[str, Any]:
    """What DB_* would say of a server's URL."""
    parts = urlsplit(url)
    host = parts.hostname or url.partition("host=")[2].partition("&")[0]
    return {"type": "postgres", "host": unquote(host), "name": parts.path[1:], "user": "postgres"}


async def database(worker: Worker) -> IndicatorReport:
    return await (await worker.get(Health)).check_one("database")


async def test_a_stopped_postgres_is_named(postgres: PostgresServer, project: Path) -> None:
    url = postgres.database()
    await ask_postgres(url)
    postgres.stop()
    with pytest.raises(Exception, match="connection"):
        await ask_postgres(url)
    postgres.start()
    await ask_postgres(url)


async def test_the_database_of_the_variables_is_watched(project: Path) -> None:
    app = App("shop", modules=[HealthModule(cache_ttl="0s", critical=["database"])])
    said = {"db": {"type": "postgres", "host": "127.0.0.1", "port": 1, "name": "shop", "password": "s3cret"}}
    async with Worker(app, **said) as worker:
        found = await database(worker)
    assert (found.status, found.critical) == ("unhealthy", True)
    assert "OperationalError" in found.reason
    assert "s3cret" not in found.reason


async def test_of_a_file_it_is_seen_whether_it_can_be_used(project: Path) -> None:
    file = project / "shop.sqlite"
    app = App("shop", modules=[HealthModule(cache_ttl="0s")])
    async with Worker(app, db={"type": "better-sqlite3", "name": str(file)}) as worker:
        found = await database(worker)
        assert (found.status, found.critical) == ("unhealthy", False)
        assert found.reason == f"FileNotFoundError: there is no file {file}"
        file.touch()
        assert (await database(worker)).status == "healthy"


@pytest.mark.parametrize(
    ("lenient", "status"), [((), "unhealthy"), (("unhealthy",), "degraded"), (("degraded", "unhealthy"), "healthy")]
)
async def test_the_thresholds_say_how_long_the_database_may_take(
    project: Path, monkeypatch: pytest.MonkeyPatch, lenient: tuple[str, ...], status: str
) -> None:
    def slow(path: Path) -> None:
        time.sleep(1.2)
        look_at_file(path)

    monkeypatch.setattr("workfleet.app.indicators.look_at_file", slow)
    health = HealthModule(cache_ttl="0s", timeout="1m", thresholds={f"database_{level}": "1m" for level in lenient})
    file = project / "shop.sqlite"
    file.touch()
    async with Worker(App("shop", modules=[health]), db={"type": "sqlite", "name": str(file)}) as worker:
        assert (await database(worker)).status == status


def test_a_folder_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        look_at_file(tmp_path)


def test_a_file_that_may_not_be_written_is_no_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "app.db"
    file.touch()
    look_at_file(file)
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)  # root may write everything
    with pytest.raises(PermissionError, match="cannot be read and written"):
        look_at_file(file)


@pytest.mark.parametrize("db", [{}, {"type": "mysql", "host": "h", "name": "n"}, {"type": "sqlite"}])
async def test_what_nobody_can_ask_is_not_watched(project: Path, db: dict[str, str]) -> None:
    async with Worker(App("shop"), db=db) as worker:
        report = await (await worker.get(Health)).check()
    assert "database" not in [each.name for each in report.indicators]


@pytest.mark.parametrize(("took_s", "status"), [(0.0625, "healthy"), (0.125, "degraded"), (1.0, "unhealthy")])
async def test_a_slow_database(took_s: float, status: str) -> None:
    clock = ManualClock()

    async def ask() -> None:
        clock.pass_time(took_s)

    said = await DatabaseIndicator(ask, clock).check()
    assert (said.status, said.facts) == (status, {"took_ms": took_s * 1000})
    assert (await DatabaseIndicator(ask, clock, degraded_from_ms=2_000, unhealthy_from_ms=3_000).check()).status == (
        "healthy"
    )
