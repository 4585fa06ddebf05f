"""`RedisModule`: named Redis clients for the application's own use, closed when the process stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING

from dishka import Provider, Scope
from msgspec import Struct

from workfleet.errors import ConfigError, NotFound, Problem
from workfleet.settings.core import Settings
from workfleet.settings.redis import RedisAddress, parse_redis_url
from workfleet.stores.redis.clients import RedisEndpoint, check_client, make_client

from .module import Module

if TYPE_CHECKING:
    from workfleet.stores.redis.clients import Redis


class RedisClient(Struct, frozen=True, kw_only=True):
    """What is said of one client. Without a URL it is the server of the `REDIS_*` settings; `db` overrides its
    database."""

    url: str | None = None
    db: int | None = None


class RedisClients:
    """The clients by name: "default" and those that the module was given."""

    def __init__(self, endpoints: Mapping[str, RedisEndpoint]) -> None:
        self._endpoints = endpoints
        self._clients = {name: make_client(endpoint) for name, endpoint in endpoints.items()}

    def get(self, name: str = "default") -> Redis:
        """A client by its name. Raises `NotFound` that lists the names."""
        client = self._clients.get(name)
        if client is None:
            raise NotFound(f"there is no Redis client {name!r}: RedisModule names {', '.join(sorted(self._clients))}")
        return client

    async def check(self) -> None:
        """Ask every server for a sign of life. Raises `StoreUnavailable`."""
        for name, client in self._clients.items():
            await check_client(client, self._endpoints[name])

    async def close(self) -> None:
        """Close every connection. One that cannot be closed in order does not keep the others open."""
        await asyncio.gather(*(client.aclose() for client in self._clients.values()), return_exceptions=True)


def RedisModule(*, clients: Mapping[str, RedisClient | str] | None = None) -> Module:
    """Named clients, injected as `RedisClients`: `RedisModule(clients={"lock": RedisClient(db=5), "cache": "redis://…"})`.

    "default" is there always: the server of `REDIS_URL` or `REDIS_HOST` and so on, unless it is given. All of them must
    answer when the process starts."""
    given = {
        name: RedisClient(url=value) if isinstance(value, str) else value for name, value in (clients or {}).items()
    }
    module = Module("redis", providers=[_ClientsProvider({"default": RedisClient(), **given})])
    module.on_init(_ask_all)
    return module


async def _ask_all(clients: RedisClients) -> None:
    """Being made, the clients have asked their servers: a wrong address stops the start, not the first job."""


class _ClientsProvider(Provider):
    def __init__(self, clients: Mapping[str, RedisClient]) -> None:
        super().__init__(scope=Scope.APP)
        self._given = clients
        self.provide(self.clients)

    async def clients(self, settings: Settings) -> AsyncIterator[RedisClients]:
        made = RedisClients({name: _endpoint(name, client, settings) for name, client in self._given.items()})
        try:
            await made.check()
            yield made
        finally:
            await made.close()


def _endpoint(name: str, client: RedisClient, settings: Settings) -> RedisEndpoint:
    try:
        address = settings.redis.address() if client.url is None else parse_redis_url(client.url)
    except ValueError as error:
        raise ConfigError(Problem(f"RedisModule client {name!r}", f"its url: {error}")) from None
    return _of(address, address.database if client.db is None else client.db)


def _of(address: RedisAddress, database: int) -> RedisEndpoint:
    return RedisEndpoint(
        host=address.host,
        port=address.port,
        path=address.path,
        user=address.user,
        password=address.password.get_secret_value() if address.password else None,
        database=database,
        tls=address.tls,
    )
