"""Doubles of pools: the real class, in this process, behind the same proxy; and a child that dies when a test says
so.

What goes in and out is copied as it would be on its way to a child and back, so that what cannot travel fails here too.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from workfleet.errors import ChildDied, PayloadRejected
from workfleet.model.declared import marked
from workfleet.pools import wire
from workfleet.pools.failures import request
from workfleet.pools.marks import HookMark, Moment

T = TypeVar("T")


class PoolDouble:
    """Serves a pool's calls with one object in this process, made at the first call, its start hooks run.

    `calls` are the methods that were called, in order; `served` is the object, None while there is none; `size` is what
    the application asked for. One call runs at a time for as long as it does not await.
    """

    def __init__(self, name: str, make: Callable[[], Awaitable[object]], *, size: int = 1) -> None:
        self.name, self.size = name, size
        self.served: object | None = None
        self.calls: list[str] = []
        self._make = make
        self._crashes: list[str] = []

    def crash_next(self, *, signal: str = "SIGKILL") -> None:
        """The next call's child dies of this signal: the call raises `ChildDied`, and a new object serves the next."""
        self._crashes.append(signal)

    async def call(self, method: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        return await self.run(method, lambda served: self._started(served, method, args, kwargs))

    async def stream(
        self, method: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> AsyncIterator[Any]:
        items = await self.run(method, lambda served: self._streamed(served, method, args, kwargs), copied=False)
        async for item in items:
            yield self._back(method, item)

    async def run(self, method: str, work: Callable[[object], Any], *, copied: bool = True) -> Any:
        """One call: it dies if a test has said so, else `work` gets the served object."""
        self.calls.append(method)
        served = await self._serve()
        if self._crashes:
            self.served = None
            raise ChildDied(self.name, method, os.getpid(), f"signal {self._crashes.pop(0)}")
        made = work(served)
        value = await made if inspect.isawaitable(made) else made
        return self._back(method, value) if copied else value

    async def aclose(self) -> None:
        """Stop: the shutdown hooks of the object run, if there is one."""
        served, self.served = self.served, None
        if served is not None:
            await _run_hooks(served, "shutdown")

    async def _serve(self) -> object:
        if self.served is None:
            served = await self._make()
            await _run_hooks(served, "start")
            self.served = served
        return self.served

    def _started(self, served: object, method: str, args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
        _, there_args, there_kwargs, _ = wire.decode(request(self.name, method, args, kwargs or {}, None))
        return getattr(served, method)(*there_args, **there_kwargs)

    async def _streamed(
        self, served: object, method: str, args: Sequence[Any], kwargs: Mapping[str, Any] | None
    ) -> AsyncIterator[Any]:
        made = self._started(served, method, args, kwargs)
        return made if isinstance(made, AsyncIterator) else _each(made)

    def _back(self, method: str, value: T) -> T:
        return travelled(value, f"result of {self.name}.{method}")


def travelled(value: T, what: str) -> T:
    """A copy, as if it had been sent to another process. Raises `PayloadRejected` for what cannot be."""
    try:
        copy: T = wire.decode(wire.encode(value))
    except Exception as error:  # pickling runs the value's own code
        kind = type(value).__qualname__
        raise PayloadRejected(what, "$", f"{kind} cannot be sent between processes: {error}") from error
    return copy


async def _each(items: Any) -> AsyncIterator[Any]:
    for item in items:
        yield item


async def _run_hooks(served: object, moment: Moment) -> None:
    for name in dir(type(served)):
        mark = marked(getattr(type(served), name, None), HookMark)
        if mark is not None and mark.moment == moment:
            made = getattr(served, name)()
            if inspect.isawaitable(made):
                await made
