"""The standard library's sqlite3 (connections and cursors), and aiosqlite's connections and cursors."""

from __future__ import annotations

from typing import Any

from .target import AsyncTarget, Parameters, SyncTarget, has


def sync_target(connection: Any) -> SyncTarget | None:
    """A sqlite3 connection or cursor."""
    if has(connection, "__aenter__") or not _is_sqlite(connection):
        return None

    def run(sql: str, parameters: Parameters) -> None:
        connection.execute(sql, parameters)

    return SyncTarget("sqlite", "?", run)


def async_target(connection: Any) -> AsyncTarget | None:
    """An aiosqlite connection or cursor."""
    if not has(connection, "__aenter__") or not _is_sqlite(connection):
        return None

    async def run(sql: str, parameters: Parameters) -> None:
        cursor = await connection.execute(sql, parameters)
        if cursor is not connection:
            await cursor.close()

    return AsyncTarget("sqlite", "?", run)


def _is_sqlite(connection: Any) -> bool:
    if has(connection, "total_changes", "in_transaction"):
        return True
    return has(connection, "execute", "lastrowid", "row_factory", "arraysize") and not has(connection, "pgresult")
