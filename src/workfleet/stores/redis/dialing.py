"""Makes connected, authenticated sockets with redis-py: TLS, unix sockets, access lists, databases, Sentinel."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any, cast

from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection, UnixDomainSocketConnection
from redis.asyncio.sentinel import Sentinel
from redis.exceptions import RedisError

from . import trouble
from .address import Address
from .link import Link
from .reconnecting import Dial

_CONNECT_S = 5.0
_ASK_S = 1.5
"""How long one sentinel, or one node of a cluster, may take to say where to connect."""


def dialer(address: Address, *, name: str, slot_key: str = "") -> Dial:
    """What connects to a server, under a client name that CLIENT LIST shows.

    With Sentinel it asks for the primary each time; in a cluster, for the node that holds `slot_key`, and so all of
    the app.
    """
    named = (str(address.options.get("host", "127.0.0.1")), int(address.options.get("port", 6379)))
    # Who can say where to connect. Each attempt begins with another one: the last may know less than it thinks.
    asked = deque(address.sentinels or (named,))
    secrets = (address.secret, address.sentinel_login.get("password"))

    async def dial(link: Link) -> None:
        place: dict[str, Any] = {}
        longest = _CONNECT_S + _ASK_S * (len(asked) if address.cluster or address.sentinels else 0)
        try:
            async with asyncio.timeout(longest):
                if address.sentinels:
                    place = await _primary(address, asked)
                elif address.cluster:
                    place, nodes = await _owner(address, asked, slot_key)
                    asked.clear()
                    asked.extend(dict.fromkeys((*nodes, named)))
                async with _connected(address, name, place) as connection:
                    _hand_over(connection, link)
        except TimeoutError:
            raise trouble.silent(address.shown, longest) from None
        except (RedisError, OSError, ValueError) as error:
            check_files(address)
            raise trouble.unreachable(address.shown, error, *secrets) from None
        finally:
            asked.rotate(-1)

    return dial


def check_files(address: Address) -> None:
    """The files for TLS: where one cannot be read, redis-py does not say which. Raises `StoreUnavailable`."""
    for option in ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile"):
        if path := address.options.get(option):
            try:
                with Path(path).open("rb"):
                    continue
            except OSError as error:
                raise trouble.unreadable(address.shown, option, path, error.strerror or str(error)) from None


@asynccontextmanager
async def _connected(address: Address, name: str, place: dict[str, Any]) -> AsyncIterator[AbstractConnection]:
    """A connection that ends with the block, unless its socket was handed over."""
    connection = _made(address, name, **place)
    try:
        await connection.connect()  # type: ignore[no-untyped-call]
        yield connection
    finally:
        await connection.disconnect(nowait=True)


def _made(address: Address, name: str, **place: Any) -> AbstractConnection:
    options = {
        "host": "127.0.0.1",
        "port": 6379,
        **address.options,
        **place,
        "client_name": name,
        "protocol": 2,
        "socket_timeout": _CONNECT_S,
        "socket_connect_timeout": _CONNECT_S,
    }
    if "path" in options:
        del options["host"], options["port"]
        return UnixDomainSocketConnection(**options)
    kind = SSLConnection if address.tls else Connection
    return kind(**options, socket_keepalive=True)


async def _primary(address: Address, sentinels: Sequence[tuple[str, int]]) -> dict[str, Any]:
    """Where the primary is, as the first of the sentinels says that knows."""
    options: dict[str, Any] = {
        "socket_timeout": _ASK_S / 2,
        "socket_connect_timeout": _ASK_S / 2,
        "protocol": 2,
        **address.sentinel_login,
    }
    if address.tls:
        said = {name: value for name, value in address.options.items() if name.startswith("ssl_")}
        options |= {"ssl": True, **said}
    sentinel = Sentinel(list(sentinels), sentinel_kwargs=options)  # type: ignore[no-untyped-call]
    try:
        host, port = await sentinel.discover_master(address.service)
    finally:
        for client in sentinel.sentinels:
            await client.aclose()
    return {"host": host, "port": port}


async def _owner(
    address: Address, nodes: Sequence[tuple[str, int]], key: str
) -> tuple[dict[str, Any], list[tuple[str, int]]]:
    """Where the node of a key is, and which nodes there are, as the first says that can be reached."""
    failed: Exception = OSError("no node of the cluster answers")
    for host, port in nodes:
        try:
            async with asyncio.timeout(_ASK_S), _connected(address, "", {"host": host, "port": port}) as asked:
                slot = int(await _said(asked, "CLUSTER", "KEYSLOT", key))
                ranges = await _said(asked, "CLUSTER", "SLOTS")
        except (RedisError, OSError, TimeoutError) as error:
            failed = error
            continue
        # A node that does not know its own name leaves it empty.
        served = {
            (first, last): [(node[0].decode() if node[0] else host, int(node[1])) for node in having]
            for first, last, *having in ranges
        }
        for (first, last), (owner, *_) in served.items():
            if first <= slot <= last:
                # Replicas too: where a primary and its neighbours are gone, one of them knows who took over.
                known = dict.fromkeys(node for having in zip_longest(*served.values()) for node in having if node)
                return {"host": owner[0], "port": owner[1]}, list(known)
        failed = OSError(f"no node of the cluster has slot {slot}")
    raise failed


async def _said(connection: AbstractConnection, *command: str) -> Any:
    await connection.send_command(*command)
    return await connection.read_response()


def _hand_over(connection: AbstractConnection, link: Link) -> None:
    """Take the socket from redis-py, which has no public way to give it. The writer must live as long as the socket:
    when it is collected it closes what is open."""
    writer, reader = connection._writer, connection._reader
    assert writer is not None
    assert reader is not None
    if reader.at_eof() or writer.transport.is_closing():
        # Whoever takes the socket would not be told again.
        raise OSError("closed by the server")
    connection._writer = connection._reader = None
    link.take(cast(asyncio.Transport, writer.transport), writer)
