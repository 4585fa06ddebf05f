"""What the outbox needs of a user's connection, whatever its library: to run one statement in its transaction."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from ..schema import Dialect, Style

T_co = TypeVar("T_co", covariant=True)
Parameters: TypeAlias = tuple[object, ...]


class Executes(Protocol):
    """A connection, cursor or session with `execute`."""

    def execute(self, *args: Any, **kwargs: Any) -> Any: ...


class HasCursors(Protocol):
    """A connection that works through its cursors only, such as Django's."""

    def cursor(self, *args: Any, **kwargs: Any) -> Any: ...


class Proxy(Protocol):
    """What answers for another object, as `django.db.connection` does: no type checker sees what it has."""

    def __getattr__(self, name: str, /) -> Any: ...


class AsyncExecutes(Protocol):
    """An asynchronous connection, cursor or session."""

    def execute(self, *args: Any, **kwargs: Any) -> Awaitable[Any]: ...


SyncConnection: TypeAlias = Executes | HasCursors | Proxy
AsyncConnection: TypeAlias = AsyncExecutes


@dataclass(frozen=True)
class Target(Generic[T_co]):
    """A way to run statements. `run` of an asynchronous one gives an awaitable."""

    dialect: Dialect
    style: Style
    run: Callable[[str, Parameters], T_co]


SyncTarget: TypeAlias = Target[None]
AsyncTarget: TypeAlias = Target[Awaitable[None]]


def has(value: object, *names: str) -> bool:
    """Whether an object's class has all of these, so that nothing of it is called to find out."""
    return all(hasattr(type(value), name) for name in names)


def is_async(value: object, method: str) -> bool:
    """Whether that method is a coroutine function."""
    return inspect.iscoroutinefunction(getattr(type(value), method, None))


def wrong_database(name: str) -> TypeError:
    """For a connection that is understood, to a database that is not."""
    return TypeError(f"the outbox works in SQLite and PostgreSQL, and this connection's database is {name}")
