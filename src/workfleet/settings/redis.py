"""The REDIS_* settings, and the URL that they mean together. Connects to nothing.

Sources: the URL forms of redis-py, and REDIS_HOST… of the worker document. A URL wins over the single settings;
REDIS_TLS=true holds for both. What a URL means in every detail the Redis store itself knows, which needs redis-py: here
is only found what would be wrong for everybody.
"""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import quote, urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from workfleet.stores.open import is_redis

from .kinds import Checked, CountOrZero, MaskPassword, Port, Text

_ALLOWED = "a URL such as redis://user:password@host:6379/0, with special characters of the password percent-encoded"
_TLS = {"redis": "rediss", "valkey": "valkeys"}


def check_redis_url(url: str) -> None:
    """ValueError for one that no Redis client could read. It never repeats any part of the URL."""
    if not is_redis(url):
        raise ValueError("its scheme is not redis, rediss, valkey, valkeys or unix")
    scheme, _, rest = url.strip().partition("://")
    # Several sentinels are no address that urlsplit reads; one of them is.
    login, at, places = rest.rpartition("@")
    one = re.sub(r",[^/]*", "", places) if scheme.endswith("+sentinel") else places
    try:
        parts = urlsplit(f"redis://{login}{at}{one}")
        usable = parts.port != 0 and (scheme == "unix" or bool(parts.hostname))
    except ValueError:
        # urlsplit's own message would print a piece of the password.
        parts, usable = urlsplit(""), False
    # '#', '?' and '/' in a password cut the address short: what follows lands in the fragment, query or path.
    if not usable or parts.fragment or "@" in parts.path + parts.query or "@" in (parts.password or ""):
        raise ValueError("it cannot be read; is the password percent-encoded? ('#' is %23, '/' is %2F, '@' is %40)")
    path = parts.path.strip("/")
    if scheme == "unix" and not path:
        raise ValueError("it names no socket: write unix:///path/to/redis.sock")
    # A sentinel's path names the service first.
    database = path.partition("/")[2] if scheme.endswith("+sentinel") else "" if scheme == "unix" else path
    # isdecimal alone takes other scripts' digits, which Redis does not.
    if database and not (database.isascii() and database.isdecimal()):
        raise ValueError("the database in it is not a number")


def _check_url(url: SecretStr) -> SecretStr:
    check_redis_url(url.get_secret_value())
    return SecretStr(url.get_secret_value().strip())


class RedisSettings(BaseModel):
    """The connection that REDIS_ENABLED=true asks for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(False, description="Use the Redis of the settings below as the store.")
    host: Text = Field("127.0.0.1", description="Server name or address.")
    port: Port = Field(6379, description="Port of the server.")
    user: Text | None = Field(None, description="User of the access control list; none: the default user.")
    password: SecretStr | None = Field(None, description="Password, as it is: nothing in it is decoded.")
    db: CountOrZero = Field(0, description="Number of the database.")
    tls: bool = Field(False, description="Connect with TLS.")
    url: Annotated[SecretStr, Checked(_ALLOWED, _check_url), MaskPassword()] | None = Field(
        None, description="Whole address, instead of the single settings."
    )

    @property
    def says_where(self) -> bool:
        """Whether anybody gave more than `enabled`."""
        return bool(self.model_fields_set - {"enabled"})

    def store_url(self) -> str:
        """The URL that these settings mean, password and all."""
        if self.url is not None:
            scheme, mark, rest = self.url.get_secret_value().partition("://")
            kind, plus, more = scheme.lower().partition("+")
            return (_TLS.get(kind, kind) if self.tls else kind) + plus + more + mark + rest
        user = quote(self.user, safe="") if self.user else ""
        password = ":" + quote(self.password.get_secret_value(), safe="") if self.password else ""
        at = "@" if user or password else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'rediss' if self.tls else 'redis'}://{user}{password}{at}{host}:{self.port}/{self.db}"
