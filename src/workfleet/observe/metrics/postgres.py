"""Metrics in PostgreSQL, by psycopg 3: for fleets of several hosts, whose workers all write here and are read together.

It keeps what `sqlite.py` keeps, in tables of the same names, of the database and the schema that its URL names. Writers
hold a lock that they share; only who forgets a series that has no rows any more holds it alone, so that no row is
written for a series that is just being forgotten.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from workfleet.errors import ConfigError, Problem, StoreUnavailable

from .aggregate import Aggregation, matches
from .model import LabelSet, MetricQuery, MetricRow, MetricSeries, StoredSample, StoredSeries, check_query
from .pieces import Found, Piece, pieces
from .postgres_sql import ENDS, FORGET, KNOW, POINTS, PRUNE, SCHEMA, SERIES, SPAN, SUMS, VERSION, WRITE
from .totals import newest, totals

if TYPE_CHECKING:
    from psycopg import AsyncConnection

_ANSWER_S = 30.0
_PRUNE_STEP = 10_000
_LOCK = 7_783_601_264_812_031
"""A number of ours for advisory locks."""
_OURS = {
    "application_name": "workfleet metrics",
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
}


class PostgresMetricStore:
    """Several apps, processes and hosts share the tables. Its one connection is opened, and the tables are made, when
    they are first needed, and anew after any failure: a server that is down delays metrics, and stops nobody."""

    def __init__(self, url: str, app: str) -> None:
        """Raises `ConfigError` where psycopg is missing, or where the URL cannot be read; it repeats no part of it."""
        self._conninfo, self.shown = _understood(url)
        self._app = app
        self._connection: AsyncConnection[Any] | None = None
        self._using = asyncio.Lock()
        self._closed = False

    async def write(self, rows: Sequence[MetricRow]) -> None:
        if not rows:
            return
        keys = [_key(row) for row in rows]
        series = sorted({(_hash(key), *key) for key in keys})
        points = [
            [_hash(key) for key in keys],
            [row.at_ms for row in rows],
            [float(row.value) for row in rows],
            [row.count for row in rows],
            [f"{{{','.join(map(str, row.buckets))}}}" for row in rows],
        ]
        async with self._connected() as connection:
            await connection.execute("select pg_advisory_xact_lock_shared(%s)", (_LOCK,))
            await connection.execute(KNOW, (self._app, *map(list, zip(*series, strict=True))))
            await connection.execute(WRITE, (*points, self._app))

    async def query(self, query: MetricQuery) -> list[MetricSeries]:
        check_query(query)
        async with self._connected() as connection:
            series = await self._series(connection, query.name)
            found = {number: each for number, each in series.items() if matches(each.labels, query)}
            span = await (await connection.execute(SPAN, (list(found),))).fetchone()
        answer = Aggregation(query)
        for piece in pieces(found, query, span or (None, None)):
            points = await self._points(piece)
            # They may be many: the event loop must not stand still meanwhile.
            await asyncio.to_thread(answer.add, (piece.found[number].row(*point) for number, *point in points))
        return await asyncio.to_thread(answer.series)

    async def _points(self, piece: Piece) -> list[tuple[Any, ...]]:
        """In a step of its own: who writes has a turn between two of them."""
        asked = {"found": list(piece.found), "from_ms": piece.from_ms, "to_ms": piece.to_ms, "step_ms": piece.step_ms}
        async with self._connected() as connection:
            return await (await connection.execute(POINTS[piece.kind], asked)).fetchall()

    async def series(self) -> list[StoredSeries]:
        async with self._connected() as connection:
            found = await (await connection.execute(ENDS, (self._app,))).fetchall()
        return newest(
            StoredSeries(name=name, kind=kind, labels=_labels(labels), at_ms=at_ms)
            for name, kind, labels, at_ms in found
        )

    async def totals(self) -> list[StoredSample]:
        async with self._connected() as connection:
            await connection.execute("set transaction isolation level repeatable read, read only")
            series = await self._series(connection)
            sums = await (await connection.execute(SUMS, (self._app,))).fetchall()
        return totals(series[number].row(*rest) for number, *rest in sums)

    async def prune(self, before_ms: int) -> int:
        deleted, step = 0, 1
        # In steps, so that no transaction is long.
        while step:
            async with self._connected() as connection:
                step = (await connection.execute(PRUNE, (self._app, before_ms, _PRUNE_STEP))).rowcount
            deleted += step
        async with self._connected() as connection:
            await connection.execute("select pg_advisory_xact_lock(%s)", (_LOCK,))
            await connection.execute(FORGET, (self._app,))
        return deleted

    async def close(self) -> None:
        self._closed = True
        await self._hang_up()

    async def _series(self, connection: AsyncConnection[Any], name: str | None = None) -> dict[int, Found]:
        found = (
            await connection.execute(SERIES, (self._app,))
            if name is None
            else await connection.execute(f"{SERIES} and name = %s", (self._app, name))
        )
        return {
            number: Found(name=name, kind=kind, labels=_labels(labels), bounds=tuple(json.loads(bounds)))
            for number, name, kind, labels, bounds in await found.fetchall()
        }

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[AsyncConnection[Any]]:
        """The connection, in a transaction. After an error, a cancellation or no answer it is closed."""
        import psycopg

        async with self._using:
            if self._closed:
                raise StoreUnavailable(self.shown, "the metric store is closed")
            try:
                async with asyncio.timeout(_ANSWER_S):
                    if self._connection is None:
                        self._connection = await self._connect()
                    yield self._connection
                    await self._connection.commit()
            except (psycopg.Error, OSError, TimeoutError) as error:
                await self._hang_up()
                text = " ".join(str(error).split()) or "no answer in time"
                raise StoreUnavailable(self.shown, f"{type(error).__name__}: {text}") from None
            except BaseException:
                await self._hang_up()
                raise

    async def _connect(self) -> AsyncConnection[Any]:
        import psycopg

        # No prepared statements: a pooler may give each transaction another connection of the server.
        connection = await psycopg.AsyncConnection.connect(self._conninfo, prepare_threshold=None)
        try:
            await self._make_tables(connection)
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _make_tables(self, connection: AsyncConnection[Any]) -> None:
        """Make the tables where they are not there. Raises `StoreUnavailable` for those of a newer version."""
        # Of the table of tables itself: names that are looked up come from a cache, which may not know of it yet.
        there = "select exists (select from pg_class where relname = 'wf_metric_format' and pg_table_is_visible(oid))"
        if not await _answer(connection, there):
            # Of several processes that start at once one makes them.
            await connection.execute("select pg_advisory_xact_lock(%s)", (_LOCK,))
            if not await _answer(connection, there):
                await connection.execute(SCHEMA)
        version = await _answer(connection, "select version from wf_metric_format")
        await connection.commit()
        if version > VERSION:
            raise StoreUnavailable(
                self.shown,
                f"its metric tables were written by a newer version (format {version}, this one knows {VERSION})",
                "Update workfleet, or drop the tables wf_metric_…: they hold only metrics",
            )

    async def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


async def _answer(connection: AsyncConnection[Any], question: str) -> Any:
    found = await (await connection.execute(question)).fetchone()
    return None if found is None else found[0]


def _key(row: MetricRow) -> tuple[str, str, str, str]:
    """What makes a series: name, kind, labels, bounds."""
    return row.name, row.kind, json.dumps(dict(row.labels)), json.dumps(row.bounds)


def _hash(key: tuple[str, ...]) -> str:
    return blake2b("\0".join(key).encode(), digest_size=16).hexdigest()


def _labels(stored: str) -> LabelSet:
    return tuple(json.loads(stored).items())


def _understood(url: str) -> tuple[str, str]:
    """The URL with our defaults below it, and what of it may be shown."""
    setting = "WORKER_METRICS__URL"
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict, make_conninfo
    except ImportError:
        reason = "metrics in PostgreSQL need psycopg, which is not installed: pip install 'workfleet[postgres]'"
        raise ConfigError(Problem("WORKER_METRICS__STORAGE", reason, "postgres")) from None
    try:
        given = conninfo_to_dict(url)
    except ProgrammingError:
        reason = "the PostgreSQL URL cannot be read; are special characters of the password percent-encoded?"
        raise ConfigError(Problem(setting, reason)) from None
    place = f"{given.get('host', 'localhost')}:{given.get('port', 5432)}/{given.get('dbname', '')}"
    defaults = {name: value for name, value in _OURS.items() if name not in given}
    return make_conninfo(url, **defaults), f"postgresql://{place}"
