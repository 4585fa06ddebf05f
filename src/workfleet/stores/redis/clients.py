"""Redis clients with every option that matters set by us: bounded pool and reads, keepalive, capped retries."""

from __future__ import annotations

import asyncio
import math
import re
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl, quote, urlencode

from msgspec import Struct, structs

from workfleet.errors import ConfigError, Problem, StoreUnavailable

from .trouble import unreachable

if TYPE_CHECKING:
    from redis.asyncio import Redis as Redis  # noqa: PLC0414 - re-exported for hints

    from .address import Address

_CONNECT_S = 5.0
_READ_S = 10.0
_CHECK_S = 10.0
_POOL = 64
_RETRIES = 5


class RedisEndpoint(Struct, frozen=True, kw_only=True):
    """Where a client's server is. `url` as for the store; `database`, if given, stands for the one in it."""

    url: str
    database: int | None = None

    def __repr__(self) -> str:
        return "RedisEndpoint(…)"

    def store_url(self) -> str:
        """The URL of a store there. As redis-py reads it, a database among the options stands above the path's."""
        if self.database is None:
            return self.url
        place, _, query = self.url.partition("?")
        options = [(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name != "db"]
        return f"{place}?{urlencode([*options, ('db', self.database)], quote_via=quote)}"

    def address(self) -> Address:
        """Read the URL. Raises `ConfigError`, also where redis-py is not installed."""
        try:
            from .address import parse
        except ImportError:
            message = 'a Redis client needs packages that are not installed: pip install "workfleet[redis]"'
            raise ConfigError(Problem("RedisModule", message)) from None
        address = parse(self.url)
        if self.database is None:
            return address
        shown = re.sub(r"(\?db=|/)\d+$", rf"\g<1>{self.database}", address.shown)
        return structs.replace(address, options={**address.options, "db": self.database}, shown=shown)


def make_client(address: Address) -> Redis:
    """A client of a server; it connects when it is first used."""
    from redis.asyncio import BlockingConnectionPool, Connection, Redis, SSLConnection, UnixDomainSocketConnection
    from redis.asyncio.retry import Retry
    from redis.backoff import FullJitterBackoff

    options: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": 6379,
        **address.options,
        "socket_timeout": _READ_S,
        "socket_connect_timeout": _CONNECT_S,
        "health_check_interval": 30,
        "retry": Retry(FullJitterBackoff(cap=1.0, base=0.05), _RETRIES),
    }
    if address.sentinels:
        return _of_sentinel(address, options)
    if address.cluster:
        return _of_cluster(address, options)
    if "path" in options:
        del options["host"], options["port"]
        options["connection_class"] = UnixDomainSocketConnection
    else:
        options |= {"connection_class": SSLConnection if address.tls else Connection, "socket_keepalive": True}
    # The client owns the pool: closing it closes every connection.
    return Redis.from_pool(BlockingConnectionPool(max_connections=_POOL, timeout=math.ceil(_READ_S), **options))


def _of_sentinel(address: Address, options: dict[str, Any]) -> Redis:
    """A client of the primary, which it asks for anew with each connection."""
    from redis.asyncio.sentinel import Sentinel

    del options["host"], options["port"]
    tls = {name: said for name, said in options.items() if name.startswith("ssl_")} | {"ssl": address.tls}
    asked = {"socket_timeout": _CONNECT_S, "socket_connect_timeout": _CONNECT_S, **address.sentinel_login, **tls}
    sentinel = Sentinel(address.sentinels, sentinel_kwargs=asked, **options, ssl=address.tls)  # type: ignore[no-untyped-call]
    return sentinel.master_for(address.service, max_connections=_POOL)  # type: ignore[no-any-return]


def _of_cluster(address: Address, options: dict[str, Any]) -> Redis:
    """A client of all nodes. It has the commands of the other one, for keys of one slot."""
    from redis.asyncio.cluster import RedisCluster

    if options.pop("db", 0):
        raise ConfigError(Problem("RedisModule", "a cluster has no database but 0", address.shown))
    return cast("Redis", RedisCluster(**options, ssl=address.tls, max_connections=_POOL))


async def close_client(client: Redis) -> None:
    """Close every connection of a client, those to sentinels too."""
    sentinel = getattr(getattr(client, "connection_pool", None), "sentinel_manager", None)
    await client.aclose()
    for asked in sentinel.sentinels if sentinel is not None else ():
        await asked.aclose()


async def check_client(client: Redis, address: Address) -> None:
    """Ask the server for a sign of life. Raises `StoreUnavailable` without any secret in its text."""
    from redis.exceptions import RedisClusterException, RedisError

    from .dialing import check_files

    try:
        # The client itself tries again and again; a start must not wait for all of that.
        async with asyncio.timeout(_CHECK_S):
            await client.ping()
    except TimeoutError:
        raise StoreUnavailable(address.shown, f"it did not answer within {_CHECK_S:g} s") from None
    except (RedisError, RedisClusterException, OSError) as error:
        check_files(address)
        secrets = (address.secret, address.sentinel_login.get("password"))
        raise unreachable(address.shown, error, *secrets) from None
