"""psycopg 3: connections and cursors, synchronous and not."""

from __future__ import annotations

from typing import Any

from .target import AsyncTarget, Parameters, SyncTarget, has, is_async


def sync_target(connection: Any) -> SyncTarget | None:
    """A `psycopg.Connection` or `psycopg.Cursor`."""
    if not _is_psycopg(connection) or is_async(connection, "execute"):
        return None

    def run(sql: str, parameters: Parameters) -> None:
        connection.execute(sql, parameters or None)

    return SyncTarget("postgresql", "%s", run)


def async_target(connection: Any) -> AsyncTarget | None:
    """A `psycopg.AsyncConnection` or `psycopg.AsyncCursor`."""
    if not _is_psycopg(connection) or not is_async(connection, "execute"):
        return None

    async def run(sql: str, parameters: Parameters) -> None:
        await connection.execute(sql, parameters or None)

    return AsyncTarget("postgresql", "%s", run)


def _is_psycopg(connection: Any) -> bool:
    return has(connection, "execute", "pipeline", "notifies") or has(connection, "execute", "pgresult", "copy")
