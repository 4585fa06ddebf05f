"""Store URLs: which are understood, and the store that is used when none is named. Opens nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, TypeAlias
from urllib.parse import quote, unquote

from workfleet.stores.open import PREFIX, is_redis

from .kinds import Checked
from .redis import check_redis_url
from .secrets import mask_url

_ALLOWED = (
    "memory://, sqlite:/// with an absolute path, such as sqlite:///var/lib/shop/shop.db, or a Redis server, such as "
    "redis://user:password@host:6379/0"
)


def store_scheme(url: str) -> str:
    """The part before `:`, in lower case."""
    return url.partition(":")[0].strip().lower()


def sqlite_path(url: str) -> Path:
    """The absolute path that a `sqlite:///…` URL names, percent-decoded. ValueError says what is wrong with it.

    `sqlite:///srv/a.db` and `sqlite:////srv/a.db` both mean /srv/a.db.
    """
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    if scheme != "sqlite" or host or not slash or not path.strip("/"):
        raise ValueError("a SQLite store is sqlite:///absolute/path/to/file.db")
    if re.search(r"[?#]", path):
        raise ValueError("a SQLite store's URL has no '?' or '#'; write them as %3F and %23")
    decoded = "/" + unquote(path).lstrip("/")
    if "\0" in decoded:
        raise ValueError("a path cannot hold a NUL character")
    if set(decoded.split("/")) & {".", "..", "~"}:
        raise ValueError("the path is relative; a SQLite store is sqlite:///absolute/path/to/file.db")
    return Path(decoded)


def sqlite_url(path: Path) -> str:
    """The store URL of a file; the other way round of `sqlite_path`."""
    return "sqlite:///" + quote(str(path.absolute()).lstrip("/"), safe="/~")


def default_store(root: Path, app: str) -> str:
    """The embedded store of an app: `<project root>/.workfleet/<app>.db`."""
    name = re.sub(r"[^\w.-]", "_", app).lstrip(".") or "app"
    return sqlite_url(root / ".workfleet" / f"{name}.db")


def shown_store(url: str) -> str:
    """A store's URL for people: its password is hidden."""
    return mask_url(url)


def _check(url: str) -> str:
    if is_redis(url):
        check_redis_url(url)
        if f"{PREFIX}=" in url:
            raise ValueError("the prefix of its queues is a setting of its own: WORKER_QUEUE_PREFIX")
    elif store_scheme(url) == "memory":
        if url.strip() != "memory://":
            raise ValueError("the store in memory is written memory://")
    elif store_scheme(url) == "sqlite":
        sqlite_path(url.strip())
    else:
        raise ValueError("no store has that scheme")
    return url.strip()


StoreUrl: TypeAlias = Annotated[str, Checked(_ALLOWED, _check)]
