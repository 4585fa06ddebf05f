"""Jobs written through the connections of the libraries that have types."""

from __future__ import annotations

import sqlite3
from typing import Any

import aiosqlite
import psycopg
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session, scoped_session

from workfleet import App, JobType, Outbox, OutboxModule, SyncOutbox

NOTE = JobType("note", int)
outbox, plain = Outbox("shop"), SyncOutbox("shop")
app = App("shop", modules=[OutboxModule(database="sqlite:////var/lib/shop/own.db", poll="1s", batch=100)])


def synchronous(
    connection: sqlite3.Connection,
    cursor: sqlite3.Cursor,
    server: psycopg.Connection[tuple[Any, ...]],
    server_cursor: psycopg.Cursor[tuple[Any, ...]],
    alchemy: Connection,
    session: Session,
    scoped: scoped_session[Session],
) -> list[str]:
    plain.create(connection)
    ids: list[str] = [plain.add(connection, NOTE(1)), plain.add(cursor, NOTE(1)), plain.add(server, NOTE(1))]
    ids += [plain.add(server_cursor, NOTE(1)), plain.add(alchemy, NOTE(1)), plain.add(session, NOTE(1))]
    return ids + plain.add_many(scoped, (NOTE(number, delay="5m") for number in range(9)))


async def asynchronous(
    connection: aiosqlite.Connection,
    server: psycopg.AsyncConnection[tuple[Any, ...]],
    server_cursor: psycopg.AsyncCursor[tuple[Any, ...]],
    alchemy: AsyncConnection,
    session: AsyncSession,
) -> list[str]:
    await outbox.create(connection)
    ids: list[str] = [await outbox.add(connection, NOTE(1)), await outbox.add(server, NOTE(1))]
    ids += [await outbox.add(server_cursor, NOTE(1)), await outbox.add(alchemy, NOTE(1))]
    return ids + await outbox.add_many(session, (NOTE(number) for number in range(9)))
