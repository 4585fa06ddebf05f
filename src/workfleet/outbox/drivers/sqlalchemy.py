"""SQLAlchemy 2: `Connection`, `AsyncConnection`, `Session`, `AsyncSession` and scoped sessions, by whichever driver.

The statement goes to the driver as it is, in the driver's own parameter style, so that SQLAlchemy is not imported."""

from __future__ import annotations

from typing import Any

from ..schema import Dialect, Style
from .target import AsyncTarget, Parameters, SyncTarget, has, is_async, wrong_database

_STYLES: dict[str, Style] = {"qmark": "?", "format": "%s", "pyformat": "%s", "numeric_dollar": "$1"}


def sync_target(connection: Any) -> SyncTarget | None:
    """A `Connection`, a `Session` or a `scoped_session`."""
    if _is_connection(connection) and not is_async(connection, "exec_driver_sql"):

        def run(sql: str, parameters: Parameters) -> None:
            connection.exec_driver_sql(sql, parameters or None).close()

        return SyncTarget(*_of(connection.dialect), run)
    if _is_session(connection) and not is_async(connection, "connection"):

        def run_in_session(sql: str, parameters: Parameters) -> None:
            connection.connection().exec_driver_sql(sql, parameters or None).close()

        return SyncTarget(*_of(connection.get_bind().dialect), run_in_session)
    return None


def async_target(connection: Any) -> AsyncTarget | None:
    """An `AsyncConnection`, an `AsyncSession` or an `async_scoped_session`."""
    if _is_connection(connection) and is_async(connection, "exec_driver_sql"):

        async def run(sql: str, parameters: Parameters) -> None:
            (await connection.exec_driver_sql(sql, parameters or None)).close()

        return AsyncTarget(*_of(connection.dialect), run)
    if _is_session(connection) and is_async(connection, "connection"):

        async def run_in_session(sql: str, parameters: Parameters) -> None:
            inner = await connection.connection()
            (await inner.exec_driver_sql(sql, parameters or None)).close()

        return AsyncTarget(*_of(connection.get_bind().dialect), run_in_session)
    return None


def _is_connection(connection: Any) -> bool:
    return has(connection, "exec_driver_sql", "dialect") or (has(connection, "exec_driver_sql", "begin_nested"))


def _is_session(connection: Any) -> bool:
    return has(connection, "connection", "get_bind", "flush", "execute")


def _of(dialect: Any) -> tuple[Dialect, Style]:
    style = _STYLES.get(dialect.paramstyle)
    if dialect.name not in ("sqlite", "postgresql") or style is None:
        raise wrong_database(f"{dialect.name} by {dialect.driver}")
    return ("sqlite" if dialect.name == "sqlite" else "postgresql"), style
