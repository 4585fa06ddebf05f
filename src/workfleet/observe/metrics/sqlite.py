"""Metrics in an SQLite file of their own, beside the store's: many processes, one thread here, one transaction a batch.

A file of its own, because metrics are written often, may be deleted by anyone at any time, and must never make a job
wait. The store's file must not be opened here. WAL with `synchronous=NORMAL`: a power failure may cost some seconds.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import apsw

from workfleet.errors import StoreUnavailable

from .aggregate import aggregate
from .model import MetricQuery, MetricRow, MetricSeries, StoredSample, StoredSeries, check_query
from .sqlite_reading import ends, stored_rows, sums
from .totals import newest, totals

T = TypeVar("T")

_VERSION = 1
_BUSY_MS = 5_000
_PRUNE_STEP = 10_000

_SCHEMA = """
create table wf_metric_series (
  id integer primary key,
  app text not null,
  name text not null,
  kind text not null,
  labels text not null,  -- JSON object, keys sorted
  bounds text not null,  -- JSON array
  unique (app, name, kind, labels, bounds)
) strict;
create table wf_metric_point (
  series integer not null,
  at_ms integer not null,
  value real not null,
  count integer not null,
  buckets text not null  -- JSON array
) strict;
create index wf_metric_point_at on wf_metric_point (series, at_ms);
"""


def metrics_path(store_path: Path) -> Path:
    """Where the metrics of a store's file are kept."""
    return store_path.with_name(f"{store_path.name}.metrics.db")


class SqliteMetricStore:
    """Several apps and several processes may share a file."""

    def __init__(self, connection: apsw.Connection, thread: ThreadPoolExecutor, path: Path, app: str) -> None:
        self._connection, self._thread, self._path, self._app = connection, thread, path, app
        self._file = _file_at(path)
        self._closed = False

    @classmethod
    async def open(cls, path: Path, app: str, *, create: bool = True) -> SqliteMetricStore:
        """Open the file. A missing one is made, with its folder, unless `create` is False: then `StoreUnavailable`."""
        thread = ThreadPoolExecutor(1, thread_name_prefix="workfleet-metrics")
        try:
            loop = asyncio.get_running_loop()
            connection = await loop.run_in_executor(thread, _guarded, path, lambda: _connect(path, create=create))
        except BaseException:
            thread.shutdown(wait=False)
            raise
        return cls(connection, thread, path, app)

    async def write(self, rows: Sequence[MetricRow]) -> None:
        if rows:
            await self._run(lambda: self._write(rows))

    async def query(self, query: MetricQuery) -> list[MetricSeries]:
        check_query(query)
        return await self._run(lambda: aggregate(stored_rows(self._connection, self._app, query), query))

    async def series(self) -> list[StoredSeries]:
        return await self._run(lambda: newest(ends(self._connection, self._app)))

    async def totals(self) -> list[StoredSample]:
        return await self._run(lambda: totals(sums(self._connection, self._app)))

    async def prune(self, before_ms: int) -> int:
        deleted = 0
        # In steps, so that the writers of other processes get their turn in between.
        while step := await self._run(lambda: self._prune(before_ms)):
            deleted += step
        await self._run(self._forget_empty)
        return deleted

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await asyncio.get_running_loop().run_in_executor(self._thread, self._connection.close)
            self._thread.shutdown()

    async def _run(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise StoreUnavailable(str(self._path), "the metrics file is closed")
        return await asyncio.get_running_loop().run_in_executor(self._thread, _guarded, self._path, work)

    def _write(self, rows: Sequence[MetricRow]) -> None:
        if _file_at(self._path) != self._file:
            # Deleted or replaced under us: what we wrote on would be seen by nobody.
            self._connection.close()
            self._connection = _connect(self._path, create=True)
            self._file = _file_at(self._path)
        with _transaction(self._connection) as cursor:
            points = [
                (self._series(cursor, row), row.at_ms, row.value, row.count, json.dumps(row.buckets)) for row in rows
            ]
            cursor.executemany("insert into wf_metric_point values (?, ?, ?, ?, ?)", points)

    def _series(self, cursor: apsw.Cursor, row: MetricRow) -> int:
        # Looked up each time: another process may have pruned a series that has no points.
        key = (self._app, row.name, row.kind, json.dumps(dict(row.labels)), json.dumps(row.bounds))
        cursor.execute(
            "insert or ignore into wf_metric_series (app, name, kind, labels, bounds) values (?, ?, ?, ?, ?)", key
        )
        found = cursor.execute(
            "select id from wf_metric_series where app = ? and name = ? and kind = ? and labels = ? and bounds = ?", key
        )
        return int(found.get)

    def _prune(self, before_ms: int) -> int:
        with _transaction(self._connection) as cursor:
            cursor.execute(
                "delete from wf_metric_point where rowid in (select point.rowid from wf_metric_series as series"
                " join wf_metric_point as point on point.series = series.id"
                " where series.app = ? and point.at_ms < ? limit ?)",
                (self._app, before_ms, _PRUNE_STEP),
            )
            return self._connection.changes()

    def _forget_empty(self) -> None:
        with _transaction(self._connection) as cursor:
            cursor.execute(
                "delete from wf_metric_series where app = ?"
                " and not exists (select 1 from wf_metric_point where series = wf_metric_series.id)",
                (self._app,),
            )


class _transaction:  # noqa: N801 - used as a statement
    """`BEGIN IMMEDIATE` to commit or rollback: a deferred one could meet another writer when it is half done."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> apsw.Cursor:
        cursor = self._connection.cursor()
        cursor.execute("begin immediate")
        return cursor

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        # An engine error may have rolled back already.
        if kind is None:
            self._connection.execute("commit")
        elif self._connection.in_transaction:
            self._connection.execute("rollback")


def _connect(path: Path, *, create: bool) -> apsw.Connection:
    if create:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Made here, because SQLite would let everybody read it; its side files get the same mode.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.set_busy_timeout(_BUSY_MS)
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = normal")
        with _transaction(connection) as cursor:
            version = cursor.execute("pragma user_version").get
            if version == 0:
                cursor.execute(_SCHEMA)
                cursor.execute(f"pragma user_version = {_VERSION}")
        if version > _VERSION:
            raise StoreUnavailable(
                str(path),
                f"written by a newer version (format {version}, this one knows {_VERSION})",
                "Update workfleet, or move the file away: it holds only metrics",
            )
    except BaseException:
        connection.close()
        raise
    return connection


def _file_at(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.stat()
    except FileNotFoundError:
        return None
    return facts.st_dev, facts.st_ino


def _guarded(path: Path, work: Callable[[], T]) -> T:
    """Every engine error is the one error that callers expect."""
    try:
        return work()
    except (apsw.Error, OSError) as error:
        raise StoreUnavailable(str(path), f"{type(error).__name__}: {error}") from error
