"""asyncpg: connections, and those of a pool."""

from __future__ import annotations

from typing import Any

from .target import AsyncTarget, Parameters, has


def async_target(connection: Any) -> AsyncTarget | None:
    """An `asyncpg.Connection`, or what `pool.acquire()` gives."""
    if not has(connection, "execute", "fetchrow", "copy_records_to_table", "add_listener"):
        return None

    async def run(sql: str, parameters: Parameters) -> None:
        await connection.execute(sql, *parameters)

    return AsyncTarget("postgresql", "$1", run)
