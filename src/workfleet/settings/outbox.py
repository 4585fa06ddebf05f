"""The section of the outbox: which database of the application holds it, and how it is moved. Connects to nothing."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from workfleet.units import Duration

from .kinds import Checked, Count, MaskPassword, Tick
from .store import sqlite_path, store_scheme

_POSTGRES = ("postgresql", "postgres")
_ALLOWED = (
    "postgresql://user:password@host:5432/shop, or sqlite:/// with the absolute path of the application's own file"
)


def is_sqlite(url: str) -> bool:
    """Whether the URL names a file, not a server."""
    return store_scheme(url) == "sqlite"


def _check_url(url: SecretStr) -> SecretStr:
    """No message repeats any part of the URL."""
    text = url.get_secret_value().strip()
    if is_sqlite(text):
        sqlite_path(text)
    elif store_scheme(text) not in _POSTGRES:
        # The rest is for libpq to read: it knows several hosts, sockets and options, which other readers refuse.
        raise ValueError("its scheme is not postgresql or sqlite")
    return SecretStr(text)


class OutboxSettings(BaseModel):
    """Jobs that the application writes into a table of its own database. Only `OutboxModule()` moves them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    database: Annotated[SecretStr, Checked(_ALLOWED, _check_url), MaskPassword()] | None = Field(
        None, description="The application's own database; `OutboxModule()` needs it."
    )
    poll: Tick = Field(
        Duration("1s"), description="How often it is looked at; on PostgreSQL notifications come sooner."
    )
    batch: Annotated[Count, Field(le=5_000)] = Field(500, description="Jobs that are moved in one step.")
