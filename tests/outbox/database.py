"""An application's own database, as a test looks at it: through a synchronous connection of its usual library."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import psycopg

from workfleet import SyncOutbox
from workfleet.clock import SystemClock
from workfleet.model.jobtypes import NewJob
from workfleet.outbox.postgres import PostgresSource
from workfleet.outbox.source import Source
from workfleet.outbox.sqlite import SqliteSource

APP = "shop"
OUTBOX = SyncOutbox(APP)


class Database(Protocol):
    url: str

    def connect(self) -> Any: ...
    def connected(self) -> AbstractContextManager[Any]: ...
    def source(self, app: str = APP) -> Source: ...
    def create(self) -> None: ...
    def add(self, jobs: Sequence[NewJob[Any]]) -> list[str]: ...
    def execute(self, sql: str) -> None: ...
    def rows(self, sql: str = ...) -> list[tuple[Any, ...]]: ...


class _Common(ABC):
    """What is the same for both, given `connect`."""

    url: str

    @abstractmethod
    def connect(self) -> Any: ...

    @contextmanager
    def connected(self) -> Iterator[Any]:
        connection = self.connect()
        try:
            yield connection
            connection.commit()
        finally:
            connection.close()

    def create(self) -> None:
        with self.connected() as connection:
            OUTBOX.create(connection)

    def add(self, jobs: Sequence[NewJob[Any]]) -> list[str]:
        with self.connected() as connection:
            return OUTBOX.add_many(connection, jobs)

    def execute(self, sql: str) -> None:
        with self.connected() as connection:
            connection.execute(sql)

    def rows(self, sql: str = "SELECT id FROM workfleet_outbox ORDER BY position") -> list[tuple[Any, ...]]:
        with self.connected() as connection:
            found: list[tuple[Any, ...]] = connection.execute(sql).fetchall()
            return found


class Sqlite(_Common):
    def __init__(self, path: Path) -> None:
        self.path, self.url = path, f"sqlite:///{path}"

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=30)

    def source(self, app: str = APP) -> Source:
        return SqliteSource(self.path, app, SystemClock())


class Postgres(_Common):
    def __init__(self, url: str) -> None:
        self.url = url

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.url)

    def source(self, app: str = APP) -> Source:
        return PostgresSource(self.url, app)
