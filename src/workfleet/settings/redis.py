"""The REDIS_* settings and the one place that reads a Redis URL. Connects to nothing.

Sources: the redis, rediss and unix URL forms of redis-py, and REDIS_HOST… of the worker document. A URL wins over the
single settings; REDIS_TLS=true holds for both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from .kinds import Checked, MaskPassword, Port, Text

_SCHEMES = {"redis": 6379, "rediss": 6379, "unix": None}
_ALLOWED = "a URL such as redis://user:password@host:6379/0, with special characters of the password percent-encoded"


@dataclass(frozen=True)
class RedisAddress:
    """Where a Redis server is and how to log in. `path` is a unix socket; then host and port mean nothing."""

    host: str
    port: int
    path: str | None
    user: str | None
    password: SecretStr | None
    database: int
    tls: bool


def parse_redis_url(url: str) -> RedisAddress:
    """Read a Redis URL, percent-decoding user, password and path. ValueError never repeats any part of the URL."""
    parts = _split(url)
    query = parse_qs(parts.query)
    is_socket = parts.scheme == "unix"
    number = query.get("db", [""])[0] or ("" if is_socket else parts.path.strip("/")) or "0"
    # isdecimal alone takes other scripts' digits, which Redis does not.
    if not (number.isascii() and number.isdecimal()):
        raise ValueError("the database in it is not a number")
    if is_socket and not parts.path:
        raise ValueError("it names no socket: write unix:///path/to/redis.sock")
    return RedisAddress(
        host=parts.hostname or "127.0.0.1",
        port=parts.port or 6379,
        path=unquote(parts.path) if is_socket else None,
        user=unquote(parts.username) if parts.username else None,
        password=SecretStr(unquote(parts.password)) if parts.password else None,
        database=int(number),
        tls=parts.scheme == "rediss",
    )


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url.strip())
        usable = parts.port != 0 and (parts.scheme == "unix" or bool(parts.hostname))
    except ValueError:
        # urlsplit's own message would print a piece of the password.
        parts, usable = SplitResult("", "", "", "", ""), False
    if usable and parts.scheme not in _SCHEMES:
        raise ValueError("its scheme is not redis, rediss or unix")
    # '#', '?' and '/' in a password cut the address short: what follows lands in the fragment, query or path.
    if not usable or parts.fragment or "@" in parts.path + parts.query or "@" in (parts.password or ""):
        raise ValueError("it cannot be read; is the password percent-encoded? ('#' is %23, '/' is %2F, '@' is %40)")
    return parts


def _check_url(url: SecretStr) -> SecretStr:
    parse_redis_url(url.get_secret_value())
    return url


class RedisSettings(BaseModel):
    """The connection that REDIS_ENABLED=true asks for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(False, description="Use the Redis of the settings below as the store.")
    host: Text = Field("127.0.0.1", description="Server name or address.")
    port: Port = Field(6379, description="Port of the server.")
    user: Text | None = Field(None, description="User of the access control list; none: the default user.")
    password: SecretStr | None = Field(None, description="Password, as it is: nothing in it is decoded.")
    tls: bool = Field(False, description="Connect with TLS.")
    url: Annotated[SecretStr, Checked(_ALLOWED, _check_url), MaskPassword()] | None = Field(
        None, description="Whole address, instead of the single settings."
    )

    def address(self) -> RedisAddress:
        """The address that these settings mean."""
        if self.url is not None:
            given = parse_redis_url(self.url.get_secret_value())
            return RedisAddress(**{**given.__dict__, "tls": given.tls or self.tls})
        return RedisAddress(self.host, self.port, None, self.user, self.password, 0, self.tls)
