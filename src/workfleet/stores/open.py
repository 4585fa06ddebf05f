"""From a store's URL to the open store. The only place that knows which stores there are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode

from workfleet.errors import ConfigError, Problem
from workfleet.ports.clock import Clock
from workfleet.ports.stores import Store

MEMORY = "memory://"
"""A store that lives and dies with the process that opened it; nobody else can reach it."""

PREFIX, METRICS = "queue_prefix", "queue_metrics"
"""The option of a Redis store's URL that names what the keys of its queues begin with."""

_KNOWN = "memory://, sqlite:/// with an absolute path, such as sqlite:///var/lib/shop/shop.db, or redis://host:6379/0"
_REDIS = ("redis", "rediss", "valkey", "valkeys", "unix")
_EXTRA = ("redis", "hiredis")


async def open_store(url: str, *, app: str, clock: Clock, create: bool) -> Store:
    """Open an app's store.

    `memory://` gives a new one each time, `sqlite:///absolute/path` opens a file, `redis://…` and its like connect to a
    server. With `?queue_prefix=…` the keys of queues there begin so, and are shared with programs that use BullMQ;
    with `?queue_metrics=<minutes>` what ends is counted for BullMQ's `getMetrics`.
    A SQLite file that does not exist is made when `create` is true. Store time is the server's, or else the clock's
    `now_ms`, which may be called from another thread. Raises `ConfigError` for a URL that names no store,
    `StoreUnavailable` when it cannot be opened.
    """
    scheme = url.partition(":")[0].lower()
    if url == MEMORY:
        from .memory.store import MemoryStore

        return MemoryStore(app, clock)
    if scheme == "sqlite":
        from .sqlite.store import SqliteStore

        return await SqliteStore.open(_path(url), app=app, clock=clock, create=create)
    if is_redis(url):
        return await _open_redis(url, app, clock)
    raise _wrong(url, f"no store has that URL: it is {_KNOWN}")


async def _open_redis(url: str, app: str, clock: Clock) -> Store:
    try:
        from .redis.store import RedisStore
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        message = 'a Redis store needs packages that are not installed: pip install "workfleet[redis]"'
        raise ConfigError(Problem("WORKER_STORE", message)) from None
    place, said = split_options(url)
    minutes = said.get(METRICS)
    if minutes is not None and not minutes.isdecimal():
        raise _wrong("redis", f"{METRICS} is a number of minutes")
    return await RedisStore.open(
        place, app=app, clock=clock, prefix=said.get(PREFIX), metrics_minutes=None if minutes is None else int(minutes)
    )


def is_redis(url: str) -> bool:
    """Whether the URL names Redis or Valkey: one server, Sentinel, or a cluster."""
    scheme = url.partition("://")[0].strip().lower()
    return scheme.removesuffix("+sentinel").removesuffix("+cluster") in _REDIS


def with_options(url: str, options: Mapping[str, str]) -> str:
    """A Redis store's URL that says what holds for its queues: `PREFIX` and `METRICS`."""
    said = urlencode(options, quote_via=quote)
    return f"{url}{'&' if '?' in url else '?'}{said}" if said else url


def split_options(url: str) -> tuple[str, dict[str, str]]:
    """A Redis store's URL without what it says of its queues, and that."""
    place, _, query = url.partition("?")
    options = parse_qsl(query, keep_blank_values=True)
    own = {name: value for name, value in options if name in (PREFIX, METRICS)}
    if not own:
        return url, {}
    rest = urlencode([option for option in options if option[0] not in own])
    return f"{place}?{rest}" if rest else place, own


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
