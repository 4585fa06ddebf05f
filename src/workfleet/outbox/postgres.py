"""The outbox in an application's PostgreSQL database, by psycopg 3: the only file that imports it.

Rows are held by their row locks (`FOR UPDATE SKIP LOCKED`), so that several relays share the work, and a connection
that dies gives them back at once. A notification wakes the relay; it may be lost, so waiting always ends by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from workfleet.errors import ConfigError, OutboxUnavailable, Problem

from .rows import Row
from .schema import CHANNEL, NEWER, TABLE, VERSION
from .source import Left, Leftovers, Refusal

if TYPE_CHECKING:
    from psycopg import AsyncConnection

_ANSWER_S = 30.0
_OURS = {
    "application_name": "workfleet outbox",
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
}

_TAKE = f"""
SELECT position, convert_to(id, 'UTF8'), convert_to(queue, 'UTF8'), convert_to(job, 'UTF8') FROM {TABLE}
WHERE app = %s AND error IS NULL AND v <= {VERSION} ORDER BY position LIMIT %s FOR UPDATE SKIP LOCKED
"""
_DELETE = f"""
DELETE FROM {TABLE} USING unnest(%s::bigint[], %s::text[]) AS gone (position, id)
WHERE {TABLE}.position = gone.position AND {TABLE}.id = gone.id
"""
_MARK = f"UPDATE {TABLE} SET error = %s WHERE position = %s"
_LEFT = f"""
SELECT (SELECT count(*) FROM {TABLE} WHERE app = %(app)s AND error IS NOT NULL),
       (SELECT count(*) FROM {TABLE} WHERE app = %(app)s AND error IS NULL AND v > {VERSION})
"""
_FIND = f"""
SELECT created_ms, v, convert_to(error, 'UTF8'), (SELECT count(*) FROM {TABLE} AS other
  WHERE other.app = line.app AND other.error IS NULL AND other.v <= {VERSION} AND other.position < line.position)
FROM {TABLE} AS line WHERE line.app = %s AND line.id = %s ORDER BY position LIMIT 1
"""
_OTHERS = f"""
SELECT convert_to(app, 'UTF8'), count(*) FROM {TABLE} WHERE app <> %s AND error IS NULL AND created_ms < %s GROUP BY app
"""


class PostgresSource:
    """A `Source`. Its one connection is opened when it is needed, and anew after any failure."""

    def __init__(self, url: str, app: str) -> None:
        """Raises `ConfigError` where psycopg is missing, or where the URL cannot be read; it repeats no part of it."""
        self._conninfo, self.shown = _understood(url)
        self._app = app
        self._connection: AsyncConnection[Any] | None = None

    async def take(self, limit: int) -> list[Row]:
        async with self._connected() as connection:
            found = await (await connection.execute(_TAKE, (self._app, limit))).fetchall()
            if not found:
                await connection.commit()
            return [Row(*row) for row in found]

    async def finish(self, moved: Sequence[Row], refused: Sequence[Refusal]) -> None:
        async with self._connected() as connection:
            if moved:
                keys = [row.position for row in moved], [row.id.decode() for row in moved]
                await connection.execute(_DELETE, keys)
            for refusal in refused:
                # A text of this server has no NUL.
                reason = refusal.reason.replace("\0", "\\0")
                await connection.execute(_MARK, (reason, refusal.row.position))
            await connection.commit()

    async def release(self) -> None:
        if self._connection is not None:
            async with self._connected() as connection:
                await connection.rollback()

    async def leftovers(self, before_ms: int) -> Leftovers:
        async with self._connected() as connection:
            ((refused, newer),) = await (await connection.execute(_LEFT, {"app": self._app})).fetchall()
            others = await (await connection.execute(_OTHERS, (self._app, before_ms))).fetchall()
            await connection.commit()
            return Leftovers(refused, newer, {app.decode(errors="replace"): count for app, count in others})

    async def find(self, job_id: str) -> Left | None:
        async with self._connected() as connection:
            rows = await (await connection.execute(_FIND, (self._app, job_id))).fetchall()
            await connection.commit()
        if not rows:
            return None
        ((created_ms, version, error, ahead),) = rows
        if error is not None:
            return Left(ahead, created_ms, error.decode(errors="replace"))
        return Left(ahead, created_ms, NEWER if version > VERSION else "")

    async def wait(self, seconds: float) -> None:
        async with self._connected(answer_s=seconds + _ANSWER_S) as connection:
            async for notice in connection.notifies(timeout=seconds):
                if notice.payload == self._app:
                    return

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    @asynccontextmanager
    async def _connected(self, answer_s: float = _ANSWER_S) -> AsyncIterator[AsyncConnection[Any]]:
        """The connection. After an error, a cancellation or no answer it is closed, which gives back its rows."""
        import psycopg

        try:
            async with asyncio.timeout(answer_s):
                if self._connection is None:
                    self._connection = await self._connect()
                yield self._connection
        except (psycopg.Error, OSError, TimeoutError) as error:
            await self.close()
            raise OutboxUnavailable(self.shown, _said(error), _advice(error)) from None
        except BaseException:
            await self.close()
            raise

    async def _connect(self) -> AsyncConnection[Any]:
        import psycopg

        # No prepared statements: a pooler may give each transaction another connection of the server.
        connection = await psycopg.AsyncConnection.connect(self._conninfo, prepare_threshold=None)
        try:
            await connection.set_isolation_level(psycopg.IsolationLevel.READ_COMMITTED)
            await connection.execute(f"LISTEN {CHANNEL}")
            await connection.commit()
        except BaseException:
            await connection.close()
            raise
        return connection


def _understood(url: str) -> tuple[str, str]:
    """The URL with our defaults below it, and what of it may be shown."""
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict, make_conninfo
    except ImportError:
        reason = "psycopg is not installed: pip install 'workfleet[postgres]'"
        raise ConfigError(Problem("OutboxModule", reason)) from None
    try:
        given = conninfo_to_dict(url)
    except ProgrammingError:
        reason = "its PostgreSQL URL cannot be read; are special characters of the password percent-encoded?"
        raise ConfigError(Problem("OutboxModule", reason)) from None
    place = f"{given.get('host', 'localhost')}:{given.get('port', 5432)}/{given.get('dbname', '')}"
    return make_conninfo(
        url, **{name: value for name, value in _OURS.items() if name not in given}
    ), f"postgresql://{place}"


def _said(error: Exception) -> str:
    text = " ".join(str(error).split()) or "no answer in time"
    return f"{type(error).__name__}: {text}"


def _advice(error: Exception) -> str:
    if getattr(error, "sqlstate", None) == "42P01":
        return f'Create it with the text of workfleet.outbox.ddl("postgresql"), or with Outbox.create: it is {TABLE}'
    return ""
