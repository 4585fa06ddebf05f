"""From a connection to the way to write through it. Each library has a file of its own, and none of them is imported:
a connection is known by what its class has."""

from __future__ import annotations

from . import asyncpg, django, psycopg, sqlalchemy, sqlite
from .target import AsyncTarget, SyncTarget

_SYNC = (sqlite.sync_target, psycopg.sync_target, sqlalchemy.sync_target, django.sync_target)
_ASYNC = (sqlite.async_target, psycopg.async_target, asyncpg.async_target, sqlalchemy.async_target)
_SYNC_NAMES = "sqlite3, psycopg (Connection, Cursor), SQLAlchemy (Connection, Session) and Django"
_ASYNC_NAMES = (
    "aiosqlite, psycopg (AsyncConnection, AsyncCursor), asyncpg and SQLAlchemy (AsyncConnection, AsyncSession)"
)


def sync_target(connection: object) -> SyncTarget:
    """How to write through a synchronous connection. Raises TypeError that says what is supported."""
    for known in _SYNC:
        if (target := known(connection)) is not None:
            return target
    if any(known(connection) is not None for known in _ASYNC):
        raise TypeError(f"{_shown(connection)} is asynchronous: await `Outbox`'s add instead of `SyncOutbox`'s")
    raise TypeError(f"SyncOutbox cannot write through {_shown(connection)}: it takes connections of {_SYNC_NAMES}")


def async_target(connection: object) -> AsyncTarget:
    """How to write through an asynchronous connection. Raises TypeError that says what is supported."""
    for known in _ASYNC:
        if (target := known(connection)) is not None:
            return target
    if any(known(connection) is not None for known in _SYNC):
        raise TypeError(f"{_shown(connection)} is synchronous: use `SyncOutbox`, which is not awaited")
    raise TypeError(f"Outbox cannot write through {_shown(connection)}: it takes connections of {_ASYNC_NAMES}")


def _shown(connection: object) -> str:
    kind = type(connection)
    return f"{kind.__module__}.{kind.__qualname__}"
