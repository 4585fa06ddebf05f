"""Jobs written through every kind of connection: they are there when the transaction commits, and not otherwise."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiosqlite
import asyncpg
import psycopg
import pytest
import sqlalchemy
from opentelemetry import trace
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from tests.outbox.database import Database, Postgres, Sqlite
from workfleet import JobType, Outbox, PayloadRejected, SyncOutbox, UsageError
from workfleet.clock import SystemClock
from workfleet.outbox import ddl


@dataclass(frozen=True)
class Welcome:
    user_id: int


WELCOME = JobType("welcome", Welcome, str, queue="emails")
ANYWHERE = JobType("anywhere", int)
ASYNC, SYNC = Outbox("shop"), SyncOutbox("shop")
ROWS = "SELECT app, v, id, queue, created_ms, job, error FROM workfleet_outbox ORDER BY position"


@contextmanager
def sync_connection(kind: str, database: Any) -> Iterator[Any]:
    """A connection in a transaction, with its commit."""
    if kind == "sqlalchemy Connection":
        engine = sqlalchemy.create_engine(alchemy(database))
        with engine.connect() as connection:
            yield connection, connection.commit
        engine.dispose()
    elif kind in ("sqlalchemy Session", "sqlalchemy scoped_session"):
        engine = sqlalchemy.create_engine(alchemy(database))
        session = scoped_session(sessionmaker(engine)) if "scoped" in kind else Session(engine)
        yield session, session.commit
        session.close()
        engine.dispose()
    else:
        with closing(database.connect()) as connection:
            yield (connection.cursor() if "cursor" in kind else connection), connection.commit


@asynccontextmanager
async def async_connection(kind: str, database: Any) -> AsyncIterator[Any]:
    if kind in ("aiosqlite", "aiosqlite cursor"):
        async with aiosqlite.connect(database.path) as connection:
            yield (await connection.cursor() if "cursor" in kind else connection), connection.commit
    elif kind in ("psycopg", "psycopg cursor"):
        # Closed, not left by `async with`, which commits.
        opened = await psycopg.AsyncConnection.connect(database.url)
        try:
            yield (opened.cursor() if "cursor" in kind else opened), opened.commit
        finally:
            await opened.close()
    elif kind == "asyncpg":
        plain = await asyncpg.connect(database.url)
        transaction = plain.transaction()
        await transaction.start()
        yield plain, transaction.commit
        await plain.close()
    elif kind == "asyncpg pool":
        async with asyncpg.create_pool(database.url, min_size=1) as pool, pool.acquire() as pooled:
            transaction = pooled.transaction()
            await transaction.start()
            committed = []

            async def commit() -> None:
                committed.append(await transaction.commit())

            yield pooled, commit
            if not committed:
                await transaction.rollback()
    else:
        engine = create_async_engine(
            alchemy(database, asynchronous=True, by="asyncpg" if "asyncpg" in kind else "psycopg")
        )
        async with AsyncSession(engine) if "Session" in kind else engine.connect() as inner:
            yield inner, inner.commit
        await engine.dispose()


def alchemy(database: Any, *, asynchronous: bool = False, by: str = "psycopg") -> str:
    if isinstance(database, Sqlite):
        return f"sqlite{'+aiosqlite' if asynchronous else ''}:///{database.path}"
    return str(database.url.replace("postgresql://", f"postgresql+{by}://"))


BOTH_SYNC = ["plain", "cursor", "sqlalchemy Connection", "sqlalchemy Session", "sqlalchemy scoped_session"]


@pytest.mark.parametrize("kind", BOTH_SYNC)
def test_a_job_is_there_when_the_transaction_of_a_synchronous_connection_commits(kind: str, database: Database) -> None:
    before = SystemClock().now_ms()
    with sync_connection(kind, database) as (connection, _commit):
        SYNC.add(connection, WELCOME(Welcome(1)))
    assert database.rows() == []
    with sync_connection(kind, database) as (connection, commit):
        made = [
            SYNC.add(connection, WELCOME(Welcome(2))),
            *SYNC.add_many(connection, [ANYWHERE(n) for n in range(250)]),
        ]
        commit()
    check_rows(database, made, before)


ON_SQLITE = ["aiosqlite", "aiosqlite cursor", "sqlalchemy AsyncConnection", "sqlalchemy AsyncSession"]
ON_POSTGRES = [
    "psycopg", "psycopg cursor", "asyncpg", "asyncpg pool", "sqlalchemy AsyncConnection", "sqlalchemy AsyncSession",
    "sqlalchemy AsyncConnection by asyncpg", "sqlalchemy AsyncSession by asyncpg",
]  # fmt: skip


@pytest.mark.parametrize("kind", ON_SQLITE)
async def test_a_job_is_there_when_an_asynchronous_transaction_commits_on_sqlite(kind: str, sqlite: Sqlite) -> None:
    await check_async(kind, sqlite)


@pytest.mark.parametrize("kind", ON_POSTGRES)
async def test_a_job_is_there_when_an_asynchronous_transaction_commits(kind: str, postgres: Postgres) -> None:
    await check_async(kind, postgres)


async def check_async(kind: str, database: Database) -> None:
    before = SystemClock().now_ms()
    async with async_connection(kind, database) as (connection, commit):
        await ASYNC.create(connection)
        await ASYNC.create(connection)
        await commit()
    async with async_connection(kind, database) as (connection, _commit):
        await ASYNC.add(connection, WELCOME(Welcome(1)))
    assert database.rows() == []
    async with async_connection(kind, database) as (connection, commit):
        made = [await ASYNC.add(connection, WELCOME(Welcome(2)))]
        made += await ASYNC.add_many(connection, [ANYWHERE(number) for number in range(250)])
        await commit()
    check_rows(database, made, before)


def check_rows(database: Database, made: list[str], before: int) -> None:
    rows = database.rows(ROWS)
    assert [row[2] for row in rows] == made
    assert len(set(made)) == 251
    assert {(row[0], row[1], row[6]) for row in rows} == {("shop", 1, None)}
    assert [row[3] for row in rows] == ["emails"] + [None] * 250
    assert all(before <= row[4] <= SystemClock().now_ms() for row in rows)
    first = json.loads(rows[0][5])
    assert first == {"payload": {"user_id": 2}, "record": {"id": made[0], "queue": "emails", "name": "welcome"}}
    assert [json.loads(row[5])["payload"] for row in rows[1:]] == list(range(250))


def test_django_writes_in_its_atomic_block(database: Database) -> None:
    import django
    from django.conf import settings

    if not settings.configured:
        settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.dummy"}})
        django.setup()
    connection = django_connection(database)
    from django.db import transaction

    with transaction.Atomic(using=connection.alias, savepoint=True, durable=False):
        SYNC.add(connection, WELCOME(Welcome(1)))
        transaction.set_rollback(True, using=connection.alias)
    assert database.rows() == []
    before = SystemClock().now_ms()
    with transaction.Atomic(using=connection.alias, savepoint=True, durable=False):
        made = [
            SYNC.add(connection, WELCOME(Welcome(2))),
            *SYNC.add_many(connection, [ANYWHERE(n) for n in range(250)]),
        ]
    connection.close()
    check_rows(database, made, before)


def django_connection(database: Database) -> Any:
    from django.db import connections
    from django.utils.connection import ConnectionProxy

    alias = f"own{id(database)}"
    if isinstance(database, Sqlite):
        said: dict[str, Any] = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(database.path)}
    else:
        parts = psycopg.conninfo.conninfo_to_dict(database.url)
        said = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": parts["dbname"],
            "USER": parts["user"],
            "HOST": parts["host"],
        }
    connections.databases[alias] = said
    for name, value in connections.databases["default"].items():
        said.setdefault(name, value)
    connections.configure_settings(connections.databases)
    proxy = ConnectionProxy(connections, alias)
    assert proxy.alias == alias
    return proxy


def test_the_texts_for_migrations_make_the_same_table(sqlite: Sqlite, postgres: Postgres) -> None:
    with closing(sqlite.connect()) as connection:
        connection.executescript(ddl("sqlite"))
        connection.executescript(ddl("sqlite"))
    with closing(postgres.connect()) as server:
        server.execute(ddl("postgresql"))
        server.execute(ddl("postgresql"))
        server.commit()
    for database in (sqlite, postgres):
        database.add([ANYWHERE(1)])
        assert len(database.rows()) == 1
    with pytest.raises(UsageError, match="there are 'sqlite', 'postgresql'"):
        ddl("mysql")  # type: ignore[arg-type]


def test_what_is_wrong_is_told_before_anything_is_written(sqlite: Sqlite) -> None:
    sqlite.create()
    with closing(sqlite.connect()) as connection:
        with pytest.raises(PayloadRejected, match="payload of welcome"):
            SYNC.add_many(connection, [WELCOME(Welcome(1)), WELCOME(Welcome("x"))])  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="priority=-1"):
            SYNC.add(connection, WELCOME(Welcome(1), priority=-1))
        assert not connection.in_transaction


async def test_a_connection_that_is_not_supported_is_named_with_those_that_are(sqlite: Sqlite) -> None:
    with pytest.raises(
        TypeError, match=r"SyncOutbox cannot write through builtins\.object: it takes connections of sqlite3, "
    ):
        SYNC.add(object(), ANYWHERE(1))  # type: ignore[arg-type]
    with pytest.raises(
        TypeError, match=r"Outbox cannot write through builtins\.object: it takes connections of aiosqlite, "
    ):
        await ASYNC.add(object(), ANYWHERE(1))  # type: ignore[arg-type]
    with (
        closing(sqlite3.connect(sqlite.path)) as plain,
        pytest.raises(TypeError, match=r"sqlite3\.Connection is synchronous: use"),
    ):
        await ASYNC.add(plain, ANYWHERE(1))  # type: ignore[arg-type,unused-ignore]
    async with aiosqlite.connect(sqlite.path) as other:
        with pytest.raises(TypeError, match="Connection is asynchronous: await `Outbox`'s add"):
            SYNC.add(other, ANYWHERE(1))


def test_another_database_is_refused() -> None:
    class Dialect:
        name, driver, paramstyle = "mysql", "pymysql", "format"

    class Connection:
        dialect = Dialect()

        def exec_driver_sql(self, sql: str) -> None: ...

        def execute(self) -> None: ...

    with pytest.raises(
        TypeError, match="works in SQLite and PostgreSQL, and this connection's database is mysql by pymysql"
    ):
        SYNC.add(Connection(), ANYWHERE(1))


def test_the_current_trace_goes_with_the_job(sqlite: Sqlite) -> None:
    span = trace.NonRecordingSpan(trace.SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=trace.TraceFlags(1)))
    sqlite.create()
    with trace.use_span(span):
        sqlite.add([ANYWHERE(1)])
    ((job,),) = sqlite.rows("SELECT job FROM workfleet_outbox")
    assert json.loads(job)["record"]["trace"] == f"00-{0xABC:032x}-{0xDEF:016x}-01"


def test_an_app_has_a_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a name is printable text"):
        SyncOutbox(" ")
