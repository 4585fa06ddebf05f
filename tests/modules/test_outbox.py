"""`OutboxModule` in whole workers: jobs written in the application's transactions run; its mistakes stop the start."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.app.working import Worker, start_problems, until
from workfleet import App, ConfigError, Health, Job, LockModule, OutboxModule, SyncOutbox
from workfleet.events import OutboxRecovered, OutboxRowsStranded, OutboxTrouble

OUTBOX = SyncOutbox("shop")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in list(os.environ):
        if name.startswith(("WORKER_", "REDIS_", "DB_")):
            monkeypatch.delenv(name)
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def file(project: Path) -> Path:
    path = project / "application.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        OUTBOX.create(connection)
    return path


class Shop:
    """An app with one handler, and what it was given."""

    def __init__(self, *modules: object) -> None:
        self.done: list[int] = []
        self.app = App("shop", modules=modules)  # type: ignore[arg-type]

        @self.app.handler("note")
        async def note(job: Job[int]) -> None:
            self.done.append(job.data)

        self.note = note


def write(file: Path, *numbers: int, shop: Shop) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        OUTBOX.add_many(connection, [shop.note.job(number) for number in numbers])


def rows(file: Path) -> int:
    with closing(sqlite3.connect(file)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM workfleet_outbox").fetchone()
        return int(count)


async def test_written_jobs_run(file: Path) -> None:
    shop = Shop(OutboxModule(database=f"sqlite:///{file}", poll="100ms", batch=2))
    write(file, 1, 2, 3, shop=shop)
    async with Worker(shop.app, default_queue="fallback", heartbeat_enabled=False):
        await until(lambda: sorted(shop.done) == [1, 2, 3])
        write(file, 4, shop=shop)
        await until(lambda: 4 in shop.done)
        await until(lambda: rows(file) == 0)


async def test_an_operator_names_the_database(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(OutboxModule(database="sqlite:////nowhere/x.db"))
    write(file, 1, shop=shop)
    monkeypatch.setenv("WORKER_OUTBOX__DATABASE", f"sqlite:///{file}")
    monkeypatch.setenv("WORKER_OUTBOX__POLL", "100ms")
    async with Worker(shop.app, heartbeat_enabled=False):
        await until(lambda: shop.done == [1])


async def test_a_factory_names_the_database(file: Path) -> None:
    def make(health: Health) -> dict[str, str]:
        assert health is not None
        return {"database": f"sqlite:///{file}", "poll": "100ms"}

    shop = Shop(OutboxModule(factory=make))
    write(file, 1, shop=shop)
    async with Worker(shop.app, heartbeat_enabled=False):
        await until(lambda: shop.done == [1])
    with pytest.raises(TypeError, match="options or a factory, not both"):
        OutboxModule(factory=make, batch=3)


async def test_an_outage_shows_in_health_and_leaves_the_process_ready(project: Path, file: Path) -> None:
    shop = Shop(OutboxModule(database=f"sqlite:///{file}", poll="100ms"))
    hidden = file.with_name("hidden.db")
    file.rename(hidden)
    async with Worker(shop.app, heartbeat_enabled=False, health={"cache_ttl": "0s"}) as worker:
        await until(lambda: worker.told(OutboxTrouble))
        health = await worker.get(Health)
        async with asyncio.timeout(15):  # a check that was on its way already may still say what was before
            while (said := await health.check_one("outbox")).status == "healthy":
                pass
        assert (said.status, said.critical) == ("unhealthy", False)
        assert said.reason == f"outbox sqlite:///{str(file)[1:]}: OperationalError: unable to open database file"
        assert (await health.check()).status == "degraded"
        assert await health.is_ready()
        hidden.rename(file)
        write(file, 1, shop=shop)
        await until(lambda: shop.done == [1] and worker.told(OutboxRecovered))
        async with asyncio.timeout(15):
            while (said := await health.check_one("outbox")).status == "unhealthy":
                pass
        assert (said.status, said.facts) == ("healthy", {"moved": 1, "refused": 0, "newer": 0, "of_other_apps": 0})
        assert len(worker.told(OutboxTrouble)) == 1


async def test_a_row_that_cannot_be_read_shows_in_health(file: Path) -> None:
    shop = Shop(OutboxModule(database=f"sqlite:///{file}", poll="100ms"))
    write(file, 1, shop=shop)
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE workfleet_outbox SET job = 'x'")
    write(file, 2, shop=shop)
    async with Worker(shop.app, heartbeat_enabled=False, health={"cache_ttl": "0s"}) as worker:
        await until(lambda: shop.done == [2])
        health = await worker.get(Health)
        for _ in range(100):
            said = await health.check_one("outbox")
            if said.status == "degraded":
                break
        assert said.reason == "1 rows cannot be read: see their column error"


async def test_rows_of_an_app_that_nobody_relays_show_in_health(file: Path) -> None:
    shop = Shop(OutboxModule(database=f"sqlite:///{file}", poll="100ms"))
    with closing(sqlite3.connect(file)) as connection, connection:
        SyncOutbox("shpo").add_many(connection, [shop.note.job(1), shop.note.job(2)])
        connection.execute("UPDATE workfleet_outbox SET created_ms = created_ms - 600000")
    async with Worker(shop.app, heartbeat_enabled=False, health={"cache_ttl": "0s"}) as worker:
        await until(lambda: worker.told(OutboxRowsStranded))
        health = await worker.get(Health)
        async with asyncio.timeout(15):  # a check that was on its way already may still say what was before
            while (said := await health.check_one("outbox")).status == "healthy":
                pass
        assert (said.status, said.critical, said.facts["of_other_apps"]) == ("degraded", False, 2)
        assert said.reason == "2 rows are of apps whose workers do not move them: shpo"


async def test_without_queueing_nothing_is_moved(file: Path) -> None:
    shop = Shop(OutboxModule(database=f"sqlite:///{file}", poll="100ms"))
    write(file, 1, shop=shop)
    async with Worker(shop.app, heartbeat_enabled=False, queue_enabled=False):
        pass
    assert rows(file) == 1


async def test_the_stores_own_file_is_refused(project: Path) -> None:
    file, linked = project / "store.db", project / "linked.db"
    linked.symlink_to(file)
    for own in (f"sqlite:///{file}", f"sqlite:///{linked}"):
        told = await start_problems(App("shop", modules=[OutboxModule(database=own)]), store=f"sqlite:///{file}")
        assert list(told) == ["WORKER_OUTBOX__DATABASE"]
        assert told["WORKER_OUTBOX__DATABASE"].startswith(
            "that is the store's own file, which no other library may open"
        )


async def test_a_database_has_to_be_named() -> None:
    told = await start_problems(App("shop", modules=[OutboxModule()]))
    assert told == {"WORKER_OUTBOX__DATABASE": "OutboxModule needs to know which database of the application it is"}


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("mysql://u:s3cret@h/d", "its scheme is not postgresql or sqlite"),
        ("postgresql://u:s3c%ret@h/d", "are special characters of the password percent-encoded"),
        ("sqlite://s3cret.db", "a SQLite store is sqlite:///absolute/path"),
    ],
)
async def test_a_url_that_cannot_be_read_is_told_without_its_secrets(url: str, part: str) -> None:
    with pytest.raises(ConfigError) as refused:
        async with Worker(App("shop", modules=[OutboxModule(database=url)]), heartbeat_enabled=False):
            pass
    assert part in str(refused.value)
    for secret in ("s3cret@", "s3c%ret", ":s3c"):
        assert secret not in str(refused.value)


def test_a_password_is_masked_where_settings_are_shown(project: Path) -> None:
    (project / "app.py").write_text(
        "from workfleet import App, OutboxModule\n"
        'app = App("shop", modules=[OutboxModule(database="postgresql://me:s3cret@db/shop")])\n'
    )
    done = subprocess.run(
        [sys.executable, "-m", "workfleet", "config", "show", "app.py"], capture_output=True, text=True, check=True
    )
    assert "postgresql://me:********@db/shop" in done.stdout
    assert "s3cret" not in done.stdout


async def test_a_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "psycopg"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    told = await start_problems(App("shop", modules=[OutboxModule(database="postgresql://db/shop"), LockModule()]))
    assert told == {"OutboxModule": "psycopg is not installed: pip install 'workfleet[postgres]'"}
