"""Redis clients with every option that matters set by us: bounded pool and reads, keepalive, capped retries."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from workfleet.errors import ConfigError, Problem, StoreUnavailable

if TYPE_CHECKING:
    from redis.asyncio import Redis as Redis  # noqa: PLC0414 - re-exported for hints

_CONNECT_S = 5.0
_READ_S = 10.0
_CHECK_S = 10.0
_POOL = 64
_RETRIES = 5


class RedisEndpoint(Struct, frozen=True, kw_only=True):
    """Where a server is. `path` is a unix socket; then host and port mean nothing."""

    host: str = "127.0.0.1"
    port: int = 6379
    path: str | None = None
    user: str | None = None
    password: str | None = None
    database: int = 0
    tls: bool = False

    def shown(self) -> str:
        """Without secrets, for people."""
        place = self.path or f"{self.host}:{self.port}"
        return f"{'rediss' if self.tls else 'redis'}://{place}/{self.database}"


def make_client(endpoint: RedisEndpoint) -> Redis:
    """A client of a server; it connects when it is first used. Raises `ConfigError` where redis-py is not installed."""
    try:
        from redis.asyncio import BlockingConnectionPool, Connection, Redis, SSLConnection, UnixDomainSocketConnection
        from redis.asyncio.retry import Retry
        from redis.backoff import FullJitterBackoff
    except ImportError:
        raise ConfigError(Problem("RedisModule", "redis-py is not installed: pip install 'workfleet[redis]'")) from None
    options: dict[str, Any] = {
        "username": endpoint.user,
        "password": endpoint.password,
        "db": endpoint.database,
        "socket_timeout": _READ_S,
        "socket_connect_timeout": _CONNECT_S,
        "health_check_interval": 30,
        "retry": Retry(FullJitterBackoff(cap=1.0, base=0.05), _RETRIES),
    }
    if endpoint.path is not None:
        options |= {"connection_class": UnixDomainSocketConnection, "path": endpoint.path}
    else:
        kind = SSLConnection if endpoint.tls else Connection
        options |= {"connection_class": kind, "host": endpoint.host, "port": endpoint.port, "socket_keepalive": True}
    # The client owns the pool: closing it closes every connection.
    return Redis.from_pool(BlockingConnectionPool(max_connections=_POOL, timeout=math.ceil(_READ_S), **options))


async def check_client(client: Redis, endpoint: RedisEndpoint) -> None:
    """Ask the server for a sign of life. Raises `StoreUnavailable` without any secret in its text."""
    from redis.exceptions import RedisError

    try:
        # The client itself tries again and again; a start must not wait for all of that.
        async with asyncio.timeout(_CHECK_S):
            await client.ping()
    except TimeoutError:
        raise StoreUnavailable(endpoint.shown(), f"it did not answer within {_CHECK_S:g} s") from None
    except (RedisError, OSError) as error:
        advice = "Check REDIS_URL or REDIS_HOST, REDIS_PORT, REDIS_USER and REDIS_PASSWORD, and that the server runs"
        raise StoreUnavailable(endpoint.shown(), f"{type(error).__name__}: {error}", advice) from None
