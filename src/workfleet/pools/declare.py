"""The decorators of pool classes: `process`, `public`, `on_start`, `on_shutdown`, `health_check`. They only record."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, Unpack, overload

from workfleet.model.declared import bare_decorator, mark, unwrap
from workfleet.pools.marks import HealthMark, HookMark, ProcessMark, ProcessOptions, PublicMark

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type[Any])
S = TypeVar("S")
R = TypeVar("R")
Q = ParamSpec("Q")

_ITERATORS: Final = re.compile(r"\b(Async)?(Iterator|Generator)\b")


def process(name: str | None = None, **options: Unpack[ProcessOptions]) -> Callable[[C], C]:
    """Runs the class's `@public` methods in a pool of child processes. `name` is the pool's, by default the class's."""

    if name is not None and not isinstance(name, str):
        raise TypeError(bare_decorator("process", name))

    def record(worker: C) -> C:
        mark(worker, ProcessMark(name or worker.__name__, options))
        return worker

    return record


@overload
def public(  # type: ignore[overload-overlap]
    fn: Callable[Concatenate[S, Q], AsyncIterator[R]], /
) -> Callable[Concatenate[S, Q], AsyncIterator[R]]: ...
@overload
def public(
    fn: Callable[Concatenate[S, Q], Coroutine[Any, Any, R]], /
) -> Callable[Concatenate[S, Q], Coroutine[Any, Any, R]]: ...
@overload
def public(  # type: ignore[overload-overlap]
    fn: Callable[Concatenate[S, Q], Iterator[R]], /
) -> Callable[Concatenate[S, Q], AsyncIterator[R]]: ...
@overload
def public(fn: Callable[Concatenate[S, Q], R], /) -> Callable[Concatenate[S, Q], Coroutine[Any, Any, R]]: ...
def public(fn: Any, /) -> Any:
    """Callable from outside the process. Callers await it, so a plain `def` becomes awaitable and a generator an async
    iterator; the child runs the method as it was written. Raises TypeError for a method that returns an iterator
    without being a generator: what it would yield could not be told from a value."""
    plain = unwrap(fn)
    if inspect.iscoroutinefunction(plain) or inspect.isasyncgenfunction(plain):
        mark(plain, PublicMark(plain))
        return plain
    if inspect.isgeneratorfunction(plain):

        @wraps(plain)
        async def stream(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            for item in plain(*args, **kwargs):
                yield item

        mark(stream, PublicMark(plain, stream))
        return stream
    returned = getattr(plain, "__annotations__", {}).get("return")
    if _ITERATORS.search(returned if isinstance(returned, str) else getattr(returned, "__name__", "")):
        raise TypeError(f"{plain.__qualname__} returns an iterator but is no generator: write it with `yield`")

    @wraps(plain)
    async def call(*args: Any, **kwargs: Any) -> Any:
        return plain(*args, **kwargs)

    mark(call, PublicMark(plain, call))
    return call


def on_start(fn: F) -> F:
    """Runs in each child when its object is made, before the first call. If it raises, the child has not started."""
    mark(fn, HookMark("start"))
    return fn


def on_shutdown(fn: F) -> F:
    """Runs in each child that is stopped gracefully, within `graceful_timeout`. Not after a kill."""
    mark(fn, HookMark("shutdown"))
    return fn


def health_check(fn: F) -> F:
    """Asked of each idle child at every health interval: False or an exception means that the child is replaced."""
    mark(fn, HealthMark())
    return fn
