"""Doubles of pools: the real class, in this process, behind the same proxy; and a child that dies when a test says
so."""

from __future__ import annotations

import inspect
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from workfleet.errors import ChildDied
from workfleet.pools.marks import public_methods


class PoolDouble:
    """Runs a worker class's methods on an object of it. Calls are counted by method in `calls`."""

    def __init__(self, name: str, served: object) -> None:
        self.name, self.served = name, served
        self.calls: list[str] = []
        self._crashes: list[str] = []
        self._methods = public_methods(type(served))

    def crash_next(self, *, signal: str = "SIGKILL") -> None:
        """The next call's child dies of this signal: the call raises `ChildDied`."""
        self._crashes.append(signal)

    async def call(self, method: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        self._enter(method)
        made = self._methods[method].fn(self.served, *args, **(kwargs or {}))
        return await made if inspect.isawaitable(made) else made

    async def stream(
        self, method: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> AsyncIterator[Any]:
        self._enter(method)
        made = self._methods[method].fn(self.served, *args, **(kwargs or {}))
        if inspect.isasyncgen(made):
            async for item in made:
                yield item
        else:
            for item in made:
                yield item

    def _enter(self, method: str) -> None:
        self.calls.append(method)
        if self._crashes:
            raise ChildDied(self.name, method, os.getpid(), self._crashes.pop(0))
