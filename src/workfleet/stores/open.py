"""From a store's URL to the open store. The only place that knows which stores there are."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from workfleet.errors import ConfigError, Problem
from workfleet.ports.clock import Clock
from workfleet.ports.stores import Store

MEMORY = "memory://"
"""A store that lives and dies with the process that opened it; nobody else can reach it."""

_KNOWN = "memory:// or sqlite:/// with an absolute path, such as sqlite:///var/lib/shop/shop.db"
_REDIS = ("redis", "rediss", "valkey", "valkeys", "unix")


async def open_store(url: str, *, app: str, clock: Clock, create: bool) -> Store:
    """Open an app's store. `memory://` gives a new one each time; `sqlite:///absolute/path` opens a file.

    A SQLite file that does not exist is made when `create` is true. Store time is the clock's `now_ms`, which may be
    called from another thread. Raises `ConfigError` for a URL that names no store, `StoreUnavailable` when it cannot be
    opened.
    """
    scheme = url.partition(":")[0].lower()
    if url == MEMORY:
        from .memory.store import MemoryStore

        return MemoryStore(app, clock)
    if scheme == "sqlite":
        from .sqlite.store import SqliteStore

        return await SqliteStore.open(_path(url), app=app, clock=clock, create=create)
    if scheme in _REDIS:
        raise _wrong(scheme, "The Redis store arrives with a later release")
    raise _wrong(url, f"no store has that URL: it is {_KNOWN}")


def _path(url: str) -> Path:
    """`sqlite:///srv/a.db` and `sqlite:////srv/a.db` both mean /srv/a.db; a relative path has no meaning in a fleet."""
    host, slash, path = url.removeprefix("sqlite://").partition("/")
    decoded = "/" + unquote(path).lstrip("/")
    if host or not slash or decoded == "/" or "\0" in decoded or not {".", "..", "~"}.isdisjoint(decoded.split("/")):
        raise _wrong(url, "a SQLite store is sqlite:/// with an absolute path, such as sqlite:///var/lib/shop/shop.db")
    return Path(decoded)


def _wrong(value: str, reason: str) -> ConfigError:
    # A Redis URL can hold a password: only its scheme is shown.
    return ConfigError(Problem("WORKER_STORE", reason, value=value))
