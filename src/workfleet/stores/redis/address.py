"""From a store's URL to where its server is and how to log in. redis-py reads the URL; nothing of it is shown."""

from __future__ import annotations

from inspect import signature
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct
from redis.asyncio.connection import SSLConnection, parse_url

from workfleet.errors import ConfigError, Problem

_SCHEMES = {
    "redis": "redis", "rediss": "rediss", "valkey": "redis", "valkeys": "rediss", "unix": "unix",
    "redis+sentinel": "redis", "rediss+sentinel": "rediss", "redis+cluster": "redis", "rediss+cluster": "rediss",
}  # fmt: skip
_OPTIONS = frozenset({"db", "username", "password", "host", "port", "path", "connection_class"})
_TLS_OPTIONS = frozenset(name for name in signature(SSLConnection).parameters if name.startswith("ssl_"))
_SENTINEL_PORT = 26379
_FORMS = (
    "redis://user:password@host:6379/0, rediss:// for TLS, unix:///path/redis.sock?db=0, redis+cluster://host:6379, or "
    "redis+sentinel://host1:26379,host2:26379/service/0, with special characters of the password percent-encoded"
)


class Address(Struct, frozen=True, kw_only=True):
    """A server, or several that name the one to use. `options` are redis-py's for a connection; secrets among them."""

    options: dict[str, Any]
    shown: str
    """For people, without secrets."""
    tls: bool = False
    sentinels: tuple[tuple[str, int], ...] = ()
    service: str = ""
    sentinel_login: dict[str, str] = {}
    """Username and password at the sentinels, where they want one: `?sentinel_password=…`."""
    cluster: bool = False

    @property
    def secret(self) -> str | None:
        password: str | None = self.options.get("password")
        return password

    def __repr__(self) -> str:
        return f"Address({self.shown})"


def parse(url: str) -> Address:
    """Read a URL. Raises `ConfigError`, which repeats no part of it but the scheme."""
    before, _, rest = url.strip().partition("://")
    scheme = before.lower()
    kind = _SCHEMES.get(scheme)
    if kind is None:
        # It may be anything, a password too.
        raise _wrong("", f"no Redis URL begins so: it is {_FORMS}")
    is_sentinel, is_cluster = scheme.endswith("+sentinel"), scheme.endswith("+cluster")
    sentinels: tuple[tuple[str, int], ...] = ()
    service = ""
    if is_sentinel:
        rest, sentinels, service = _sentinels(scheme, rest)
    try:
        parts = urlsplit(f"{kind}://{rest}")
        # '#', '?' and '/' in a password cut the address short: what follows lands in the fragment, query or path.
        if parts.fragment or "@" in parts.path + parts.query or "@" in (parts.password or "") or parts.port == 0:
            raise ValueError("cut short")
        options: dict[str, Any] = dict(parse_url(f"{kind}://{rest}"))
        path = parts.path.strip("/")
        if (kind == "unix" and not options.get("path")) or (kind != "unix" and path and not path.isdecimal()):
            raise ValueError("no socket, or no database number")
    except ValueError:
        reason = (
            f"it cannot be read; is the password percent-encoded ('#' is %23, '/' is %2F, '@' is %40)? It is {_FORMS}"
        )
        raise _wrong(scheme, reason) from None
    login = {name: options.pop(f"sentinel_{name}", "") for name in ("username", "password")} if is_sentinel else {}
    unknown = [name for name in options if name not in _OPTIONS | _TLS_OPTIONS]
    if unknown:
        raise _wrong(scheme, f"it has options that this store does not know: {', '.join(sorted(unknown))}")
    if kind != "rediss" and (useless := _TLS_OPTIONS & options.keys()):
        raise _wrong(scheme, f"it has options of TLS and is without TLS: {', '.join(sorted(useless))}. Write rediss://")
    if is_cluster and options.get("db"):
        raise _wrong(scheme, "a cluster has no database but 0: leave the number out")
    options.pop("connection_class", None)
    return Address(
        options=options,
        shown=_shown(scheme, options, sentinels, service),
        tls=kind == "rediss",
        sentinels=sentinels,
        service=service,
        sentinel_login={name: said for name, said in login.items() if said},
        cluster=is_cluster,
    )


def _sentinels(scheme: str, rest: str) -> tuple[str, tuple[tuple[str, int], ...], str]:
    """Split `user:password@h1:p1,h2:p2/service/0?…` into a URL of one host for redis-py, the sentinels, the service."""
    login, at, places = rest.rpartition("@")
    places, mark, query = places.partition("?")
    hosts, _, path = places.partition("/")
    service, _, database = path.partition("/")
    found = []
    try:
        for host in hosts.split(","):
            split = urlsplit(f"//{host}")
            found.append((split.hostname or "", split.port or _SENTINEL_PORT))
    except ValueError:
        found = []
    if not found or not all(host for host, _ in found) or not service:
        raise _wrong(scheme, "it is redis+sentinel://host1:26379,host2:26379/service/0")
    return f"{login}{at}sentinel/{database}{mark}{query}", tuple(found), service


def _shown(scheme: str, options: dict[str, Any], sentinels: tuple[tuple[str, int], ...], service: str) -> str:
    database = options.get("db", 0)
    if sentinels:
        return f"{scheme}://{','.join(_place(*each) for each in sentinels)}/{service}/{database}"
    if "path" in options:
        return f"{scheme}://{options['path']}?db={database}"
    return f"{scheme}://{_place(options.get('host', '127.0.0.1'), options.get('port', 6379))}/{database}"


def _place(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _wrong(scheme: str, reason: str) -> ConfigError:
    return ConfigError(Problem("WORKER_STORE", reason, value=f"{scheme}://…" if scheme else None))
