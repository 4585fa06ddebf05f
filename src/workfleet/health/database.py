"""The indicator of the application's own database: can it be reached, and how fast.

A PostgreSQL database is connected to and asked for `SELECT 1`. Of an SQLite file it is only seen whether it is there
and may be written: to open it would be wrong. It could be the store's file, and closing it here would drop the locks
that SQLite holds on it for this process.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path

from workfleet.ports.clock import Clock

from .indication import Indication, judged


class DatabaseIndicator:
    """How long `ask` takes. What it raises makes it unhealthy."""

    name = "database"

    def __init__(
        self,
        ask: Callable[[], Awaitable[None]],
        clock: Clock,
        *,
        degraded_from_ms: float = 100,
        unhealthy_from_ms: float = 1_000,
        critical: bool = False,
    ) -> None:
        self._ask, self._clock = ask, clock
        self._degraded_from_ms, self._unhealthy_from_ms = degraded_from_ms, unhealthy_from_ms
        self.critical = critical

    async def check(self) -> Indication:
        started = self._clock.monotonic()
        await self._ask()
        took_ms = (self._clock.monotonic() - started) * 1000
        status = judged(took_ms, self._degraded_from_ms, self._unhealthy_from_ms)
        reason = "" if status == "healthy" else f"the database took {took_ms:.0f} ms to answer"
        return Indication(status, {"took_ms": round(took_ms, 1)}, reason)


async def ask_postgres(url: str) -> None:
    """Connect and ask for something. Raises what psycopg raises, and ImportError where it is not installed."""
    import psycopg

    connection = await psycopg.AsyncConnection.connect(url, autocommit=True, application_name="workfleet health")
    try:
        await connection.execute("SELECT 1")
    finally:
        await connection.close()


def has_postgres() -> bool:
    """Whether the driver is installed."""
    return find_spec("psycopg") is not None


def look_at_file(path: Path) -> None:
    """Whether an SQLite database can be used, as far as can be told without opening it. Raises OSError."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    if not os.access(path, os.R_OK | os.W_OK):
        raise PermissionError(f"{path} cannot be read and written")
