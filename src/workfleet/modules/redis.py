"""`RedisModule`: named Redis clients for the application's own use, closed when the process stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from dishka import Provider, Scope
from msgspec import Struct

from workfleet.errors import ConfigError, NotFound
from workfleet.settings.core import Settings
from workfleet.stores.open import is_redis
from workfleet.stores.redis.clients import RedisEndpoint, check_client, close_client, make_client

from .module import Module

if TYPE_CHECKING:
    from workfleet.stores.redis.address import Address
    from workfleet.stores.redis.clients import Redis


class RedisClient(Struct, frozen=True, kw_only=True):
    """What is said of one client. Without a URL it is the server of the `REDIS_*` settings, or the store's where they
    say none; `db` overrides its database."""

    url: str | None = None
    db: int | None = None


class RedisClients:
    """The clients by name: "default" and those that the module was given."""

    def __init__(self, endpoints: Mapping[str, RedisEndpoint]) -> None:
        addresses = {name: _address(name, endpoint) for name, endpoint in endpoints.items()}
        self._addresses = addresses
        self._clients = {name: make_client(address) for name, address in addresses.items()}
        self.expected: tuple[str, ...] = tuple(self._clients)
        """The names of those whose servers must answer."""

    def get(self, name: str = "default") -> Redis:
        """A client by its name. Raises `NotFound` that lists the names."""
        client = self._clients.get(name)
        if client is None:
            raise NotFound(f"there is no Redis client {name!r}: RedisModule names {', '.join(sorted(self._clients))}")
        return client

    async def check(self, *, but: str | None = None) -> None:
        """Ask every server for a sign of life, but that of one client. Raises `StoreUnavailable`."""
        self.expected = tuple(name for name in self._clients if name != but)
        for name in self.expected:
            await check_client(self._clients[name], self._addresses[name])

    async def close(self) -> None:
        """Close every connection. One that cannot be closed in order does not keep the others open."""
        await asyncio.gather(*(close_client(client) for client in self._clients.values()), return_exceptions=True)


def RedisModule(*, clients: Mapping[str, RedisClient | str] | None = None) -> Module:
    """Named clients, injected as `RedisClients`: `RedisModule(clients={"lock": RedisClient(db=5), "cache": "redis://…"})`.

    "default" is there always: the server of `REDIS_URL` or `REDIS_HOST` and so on, else the store's, unless it is
    given. All of them must answer when the process starts; "default" need not where other clients are given and nothing
    says where it is."""
    given = {
        name: RedisClient(url=value) if isinstance(value, str) else value for name, value in (clients or {}).items()
    }
    module = Module("redis", providers=[_ClientsProvider({"default": RedisClient(), **given})])
    module.on_init(_ask_all)
    return module


async def _ask_all(clients: RedisClients) -> None:
    """Being made, the clients have asked their servers: a wrong address stops the start, not the first job."""


def client_url(name: str, modules: Iterable[Module], settings: Settings) -> str:
    """The URL of a client by its name, as for a store, secrets and all. "default" is there without `RedisModule` too.

    Raises `NotFound`, which lists the names, and `ConfigError` for an address that cannot be read."""
    given: dict[str, RedisClient] = {"default": RedisClient()}
    for module in modules:
        for provider in module.providers:
            if isinstance(provider, _ClientsProvider):
                given.update(provider.given)
    if name not in given:
        raise NotFound(f"RedisModule names no client {name!r}, only {', '.join(sorted(given))}")
    endpoint = _endpoint(given[name], settings)
    _address(name, endpoint)
    return endpoint.store_url()


class _ClientsProvider(Provider):
    def __init__(self, clients: Mapping[str, RedisClient]) -> None:
        super().__init__(scope=Scope.APP)
        self.given = clients
        self.provide(self.clients)

    async def clients(self, settings: Settings) -> AsyncIterator[RedisClients]:
        made = RedisClients({name: _endpoint(client, settings) for name, client in self.given.items()})
        try:
            await made.check(but="default" if self._says_no_default(settings) else None)
            yield made
        finally:
            await made.close()

    def _says_no_default(self, settings: Settings) -> bool:
        """Whether "default" is a server that nobody has named, beside clients that somebody has."""
        on_redis = settings.store is not None and is_redis(settings.store)
        return (
            len(self.given) > 1
            and self.given["default"] == RedisClient()
            and not on_redis
            and not settings.redis.says_where
        )


def _address(name: str, endpoint: RedisEndpoint) -> Address:
    try:
        return endpoint.address()
    except ConfigError as error:
        problems = [replace(problem, name=f"RedisModule client {name!r}") for problem in error.problems]
        raise ConfigError(problems) from None


def _endpoint(client: RedisClient, settings: Settings) -> RedisEndpoint:
    """Where a client connects: what it says itself, else REDIS_*, else the store's server where that is a Redis."""
    store = settings.store
    if client.url is not None:
        url = client.url
    elif store is not None and is_redis(store) and not settings.redis.says_where:
        url = store
    else:
        url = settings.redis.store_url()
    return RedisEndpoint(url=url, database=client.db)
