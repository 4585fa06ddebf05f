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

from .aggregate import Aggregation
from .model import MetricQuery, MetricRow, MetricSeries, StoredSample, StoredSeries, check_query
from .pieces import Piece, pieces
from .sqlite_reading import asked, ends, rows_of, span, sums
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
    """Several apps and several processes may share a file. It is opened, and made, when it is first needed, and anew
    after any failure, and where it was deleted or replaced: a file that cannot be used delays metrics, no more."""

    def __init__(self, path: Path, app: str, *, create: bool = True) -> None:
        """A missing file is made, with its folder, unless `create` is False: then `StoreUnavailable`."""
        self._path, self._app, self._create = path, app, create
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="workfleet-metrics")
        # Both are the thread's own.
        self._connection: apsw.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._closed = False

    async def write(self, rows: Sequence[MetricRow]) -> None:
        if rows:
            await self._run(lambda connection: self._write(connection, rows))

    async def query(self, query: MetricQuery) -> list[MetricSeries]:
        check_query(query)
        found = await self._run(lambda connection: asked(connection, self._app, query))
        answer = Aggregation(query)
        # Each by itself, so that who writes need not wait for all of them.
        for piece in pieces(found, query, await self._run(lambda connection: span(connection, found))):
            await self._run(_reading(piece, answer))
        return await self._run(lambda connection: answer.series())

    async def series(self) -> list[StoredSeries]:
        return await self._run(lambda connection: newest(ends(connection, self._app)))

    async def totals(self) -> list[StoredSample]:
        return await self._run(lambda connection: totals(sums(connection, self._app)))

    async def prune(self, before_ms: int) -> int:
        deleted = 0
        # In steps, so that the writers of other processes get their turn in between.
        while step := await self._run(lambda connection: self._prune(connection, before_ms)):
            deleted += step
        await self._run(self._forget_empty)
        return deleted

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await asyncio.get_running_loop().run_in_executor(self._thread, self._hang_up)
            self._thread.shutdown()

    async def _run(self, work: Callable[[apsw.Connection], T]) -> T:
        if self._closed:
            raise StoreUnavailable(str(self._path), "the metrics file is closed")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._guarded, work)

    def _guarded(self, work: Callable[[apsw.Connection], T]) -> T:
        """Every engine error is the one error that callers expect."""
        try:
            return work(self._connected())
        except (apsw.Error, OSError) as error:
            self._hang_up()
            raise StoreUnavailable(str(self._path), f"{type(error).__name__}: {error}") from error

    def _connected(self) -> apsw.Connection:
        if self._connection is None or _file_at(self._path) != self._file:
            # What we would write into a deleted file nobody would see.
            self._hang_up()
            self._connection = _connect(self._path, create=self._create)
            self._file = _file_at(self._path)
        return self._connection

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close(True)

    def _write(self, connection: apsw.Connection, rows: Sequence[MetricRow]) -> None:
        with _transaction(connection) as cursor:
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

    def _prune(self, connection: apsw.Connection, before_ms: int) -> int:
        with _transaction(connection) as cursor:
            cursor.execute(
                "delete from wf_metric_point where rowid in (select point.rowid from wf_metric_series as series"
                " join wf_metric_point as point on point.series = series.id"
                " where series.app = ? and point.at_ms < ? limit ?)",
                (self._app, before_ms, _PRUNE_STEP),
            )
            return connection.changes()

    def _forget_empty(self, connection: apsw.Connection) -> None:
        with _transaction(connection) as cursor:
            cursor.execute(
                "delete from wf_metric_series where app = ?"
                " and not exists (select 1 from wf_metric_point where series = wf_metric_series.id)",
                (self._app,),
            )


def _reading(piece: Piece, answer: Aggregation) -> Callable[[apsw.Connection], None]:
    return lambda connection: answer.add(rows_of(connection, piece))


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
