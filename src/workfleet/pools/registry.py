"""All pools of a process, by worker class and by name: started on first use, steered and closed together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, TypeVar, Unpack, cast

from msgspec import Struct

from workfleet.errors import ConfigError, NotFound, Problem, UsageError
from workfleet.events import ChildPrinted, Event
from workfleet.model.durations import DurationLike, duration_ms
from workfleet.pools.marks import ProcessOptions
from workfleet.pools.options import ChildSpec, PoolOptions
from workfleet.pools.output import Stream
from workfleet.pools.pool import ProcessPool
from workfleet.pools.process import Spawn, spawn
from workfleet.pools.proxy import Middleware, pool_proxy
from workfleet.pools.stats import PoolStats
from workfleet.ports.clock import Clock

W = TypeVar("W")


class PoolSetup(Struct, frozen=True):
    """How to make the pool of a class: what its children are, its options, and what stands around its methods."""

    child: ChildSpec
    options: PoolOptions
    middleware: Middleware | None = None


Configure = Callable[[type[Any], ProcessOptions], PoolSetup]
"""Gives the setup of a worker class, with these options over the others'. Raises `ConfigError`."""


class Pools:
    """Gets, starts and steers pools. What children print becomes `ChildPrinted` events."""

    def __init__(
        self, configure: Configure, *, clock: Clock, publish: Callable[[Event], None], spawn: Spawn = spawn
    ) -> None:
        self._configure = configure
        self._clock = clock
        self._publish = publish
        self._spawn = spawn
        self._pools: dict[str, ProcessPool] = {}
        self._proxies: dict[type[Any], tuple[str, Any]] = {}

    def declare(self, worker: type[W], **options: Unpack[ProcessOptions]) -> W:
        """The proxy of the class's pool, which is made if there is none, but not started.

        Until it has started its options may be given anew. Raises `UsageError` when it has others, `ConfigError` when
        it cannot be.
        """
        known = self._proxies.get(worker)
        setup = self._configure(worker, options) if options or known is None else None
        if known is None and setup is not None:
            pool = self.add(setup.child, setup.options)
            try:
                known = pool.name, pool_proxy(worker, _Named(self._pools, pool.name), setup.middleware)
            except ConfigError:
                del self._pools[pool.name]
                raise
            self._proxies[worker] = known
        elif known is not None and setup is not None:
            there = self._pools[known[0]]
            if there.stats().state == "new":
                del self._pools[there.name]
                self.add(setup.child, setup.options)
            else:
                _compare(there.options, setup.options)
        assert known is not None
        return cast(W, known[1])

    def add(self, child: ChildSpec, options: PoolOptions) -> ProcessPool:
        """A pool without a class. Raises `ConfigError` when the name is taken."""
        if options.name in self._pools:
            raise ConfigError(Problem(f"pool {options.name}", "there are two pools of this name: give one another"))

        def printed(line: str, stream: Stream, pid: int) -> None:
            self._publish(ChildPrinted(pool=options.name, pid=pid, stream=stream, line=line))

        pool = self._pools[options.name] = ProcessPool(
            child, options, clock=self._clock, publish=self._publish, on_output=printed, spawn=self._spawn
        )
        return pool

    async def pool(self, worker: type[W], **options: Unpack[ProcessOptions]) -> W:
        """The class's pool, started if it is not: its public methods, to be awaited. Does not wait for the children.

        Raises `UsageError` when it exists with other options (`scale` changes its size), `ConfigError` if it cannot be.
        """
        proxy = self.declare(worker, **options)
        self.get(worker).start()
        return proxy

    def get(self, which: type[Any] | str) -> ProcessPool:
        """The pool of a class or name. Raises `NotFound`."""
        name = self._proxies[which][0] if isinstance(which, type) and which in self._proxies else which
        pool = self._pools.get(name) if isinstance(name, str) else None
        if pool is None:
            wanted = which if isinstance(which, str) else which.__qualname__
            raise NotFound(f"there is no pool {wanted!r}. Pools: {', '.join(sorted(self._pools)) or 'none'}")
        return pool

    def start(self) -> None:
        """Starts all that were declared or added."""
        for pool in self._pools.values():
            pool.start()

    async def scale(self, which: type[Any] | str, size: int) -> None:
        """Sets the number of children; those that go finish their calls first. A failed pool tries anew."""
        self.get(which).scale(size)

    async def recycle(self, which: type[Any] | str) -> None:
        """Replaces every child by a new one, each after its calls."""
        self.get(which).recycle()

    async def drain(self, which: type[Any] | str, timeout: DurationLike = "30s") -> int:
        """Takes no more calls and lets the others end. Returns how many have not, at the timeout."""
        return await self.get(which).drain(duration_ms(timeout))

    def list(self) -> tuple[str, ...]:
        """The names of all pools."""
        return tuple(sorted(self._pools))

    def stats(self) -> dict[str, PoolStats]:
        """By name."""
        return {name: self._pools[name].stats() for name in self.list()}

    async def aclose(self, timeout_ms: int) -> int:
        """Stops all pools at once. Returns how many children were killed at the timeout; none is left."""
        return sum(await asyncio.gather(*(pool.stop(timeout_ms) for pool in self._pools.values())))


class _Named:
    """What a proxy calls: the pool of that name, which is another one once its options were given anew."""

    def __init__(self, pools: Mapping[str, ProcessPool], name: str) -> None:
        self._pools, self.name = pools, name

    async def call(self, method: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        return await self._pools[self.name].call(method, args, kwargs)

    def stream(
        self, method: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> AsyncIterator[Any]:
        return self._pools[self.name].stream(method, args, kwargs)


def _compare(there: PoolOptions, wanted: PoolOptions) -> None:
    for field in there.__struct_fields__:
        is_, asked = getattr(there, field), getattr(wanted, field)
        if is_ != asked:
            raise UsageError(
                f"pool {there.name!r} exists with {field}={is_!r}: it cannot have {field}={asked!r} as well"
            )
