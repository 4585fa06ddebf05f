"""Which database metrics are kept in: a setting of its own, or the application's own database. Connects to nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias
from urllib.parse import quote

from pydantic import SecretStr

from .kinds import Checked, MaskPassword
from .store import store_scheme

if TYPE_CHECKING:
    from .core import DatabaseSettings

_SCHEMES = ("postgresql", "postgres")
_ALLOWED = "postgresql://user:password@host:5432/metrics"


def _check_url(url: SecretStr) -> SecretStr:
    """No message repeats any part of the URL."""
    text = url.get_secret_value().strip()
    if store_scheme(text) not in _SCHEMES:
        # The rest is for libpq to read: it knows several hosts, sockets and options, which other readers refuse.
        raise ValueError("its scheme is not postgresql")
    return SecretStr(text)


MetricsUrl: TypeAlias = Annotated[SecretStr, Checked(_ALLOWED, _check_url), MaskPassword()]


def database_url(db: DatabaseSettings) -> str | None:
    """The PostgreSQL database that DB_* name; None where they name none, or one of another kind."""
    if db.type not in (None, *_SCHEMES) or db.host is None:
        return None
    password = "" if db.password is None else f":{quote(db.password.get_secret_value(), safe='')}"
    user = "" if db.user is None else f"{quote(db.user, safe='')}{password}@"
    port = "" if db.port is None else f":{db.port}"
    return f"postgresql://{user}{db.host}{port}/{quote(db.name or '', safe='')}"
