"""All pools of a process, by worker class and by name: started on first use, steered and closed together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar, Unpack, cast

from msgspec import Struct

from workfleet.errors import ConfigError, NotFound, Problem, UsageError
from workfleet.events import ChildPrinted, Event
from workfleet.model.durations import DurationLike, duration_ms
from workfleet.pools.calls import Carry
from workfleet.pools.isolation import Recipe, spawner
from workfleet.pools.keys import MethodKeys
from workfleet.pools.marks import ProcessOptions
from workfleet.pools.options import ChildSpec, PoolOptions
from workfleet.pools.output import Stream
from workfleet.pools.pool import ProcessPool
from workfleet.pools.process import Spawn, spawn
from workfleet.pools.proxy import Middleware, pool_proxy
from workfleet.pools.stats import PoolStats
from workfleet.ports.clock import Clock
from workfleet.ports.spans import CallTracing

W = TypeVar("W")


class PoolSetup(Struct, frozen=True):
    """How to make the pool of a class: what its children are, its options, what stands around its methods, and what
    children inside this process make their object by, where not as a process would."""

    child: ChildSpec
    options: PoolOptions
    middleware: Middleware | None = None
    recipe: Recipe | None = None


Configure = Callable[[type[Any], ProcessOptions], PoolSetup]
"""Gives the setup of a worker class, with these options over the others'. Raises `ConfigError`."""


class Pools:
    """Gets, starts and steers pools. What children print becomes `ChildPrinted` events."""

    def __init__(
        self,
        configure: Configure,
        *,
        clock: Clock,
        publish: Callable[[Event], None],
        spawn: Spawn = spawn,
        trace: CallTracing | None = None,
        carry: Carry | None = None,
    ) -> None:
        self._configure = configure
        self._clock = clock
        self._publish = publish
        self._spawn = spawn
        self._trace, self._carry = trace, carry
        self._pools: dict[str, ProcessPool] = {}
        self._proxies: dict[type[Any], tuple[_Callee, Any]] = {}

    def declare(self, worker: type[W], **options: Unpack[ProcessOptions]) -> W:
        """The proxy of the class's pool, which is made if there is none, but not started.

        Until it has started its options may be given anew. Raises `UsageError` when it has others, `ConfigError` when
        it cannot be.
        """
        known = self._proxies.get(worker)
        setup = self._configure(worker, options) if options or known is None else None
        if known is None and setup is not None:
            pool = self._make(setup, _keys(worker, setup.options))
            callee = _Callee(pool)
            try:
                known = callee, pool_proxy(worker, callee, setup.middleware)
            except ConfigError:
                del self._pools[pool.name]
                raise
            self._proxies[worker] = known
        elif known is not None and setup is not None:
            there = self._pools[known[0].name]
            if there.stats().state == "new":
                keys = _keys(worker, setup.options)
                del self._pools[there.name]
                known[0].lead_to(self._make(setup, keys))
            else:
                _compare(there.options, setup.options)
        assert known is not None
        return cast(W, known[1])

    def add(self, child: ChildSpec, options: PoolOptions) -> ProcessPool:
        """A pool without a class. Raises `ConfigError` when the name is taken, and for keys: it has no parameters."""
        problems = keyless_problems(options)
        if problems:
            raise ConfigError(problems)
        return self._make(PoolSetup(child, options), None)

    def _make(self, setup: PoolSetup, keys: MethodKeys | None) -> ProcessPool:
        options = setup.options
        if options.name in self._pools:
            raise ConfigError(two_pools(options.name))

        def printed(line: str, stream: Stream, pid: int) -> None:
            self._publish(ChildPrinted(pool=options.name, pid=pid, stream=stream, line=line))

        pool = self._pools[options.name] = ProcessPool(
            setup.child,
            options,
            clock=self._clock,
            publish=self._publish,
            on_output=printed,
            spawn=spawner(options.isolation, setup.recipe, self._spawn),
            keys=keys,
            trace=self._trace,
            carry=self._carry,
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
        name = self._proxies[which][0].name if isinstance(which, type) and which in self._proxies else which
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
        """Sets the number of children; those that go finish their calls first. A failed pool tries anew.

        Raises `UsageError` for a size that the pool cannot have: below 1, or outside of `min_size` and `max_size`."""
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


class _Callee:
    """What a proxy calls: the pool, which is another one once its options were given anew. No step in between."""

    def __init__(self, pool: ProcessPool) -> None:
        self.name = pool.name
        self.lead_to(pool)

    def lead_to(self, pool: ProcessPool) -> None:
        self.call, self.stream = pool.call, pool.stream


def keyless_problems(options: PoolOptions) -> list[Problem]:
    """What a pool without a class cannot have."""
    if options.hash_key is None:
        return []
    problem = "consistent_hash is for the pool of a @process class, whose methods have the parameters of a key"
    return [Problem(f"pool {options.name}: strategy", problem)]


def two_pools(name: str) -> Problem:
    """Names are unique."""
    return Problem(f"pool {name}", "there are two pools of this name: give one another")


def _keys(worker: type[Any], options: PoolOptions) -> MethodKeys | None:
    return None if options.hash_key is None else MethodKeys(worker, options.name, options.hash_key)


def _compare(there: PoolOptions, wanted: PoolOptions) -> None:
    for field in there.__struct_fields__:
        is_, asked = getattr(there, field), getattr(wanted, field)
        if is_ != asked:
            raise UsageError(
                f"pool {there.name!r} exists with {field}={is_!r}: it cannot have {field}={asked!r} as well"
            )
