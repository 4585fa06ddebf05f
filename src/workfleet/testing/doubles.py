"""The pools of a `Fleet`: doubles in this process in place of child processes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Annotated, Any

from dishka import AsyncContainer, FromComponent, Provider, Scope
from msgspec import structs

from workfleet.app.builtins import Basis
from workfleet.app.compile import Invoke
from workfleet.app.graph import POOLS
from workfleet.app.guarding import GuardMaker
from workfleet.app.inject import Injected, run_here
from workfleet.app.pool_checks import CPU, named_problems, pool_name
from workfleet.app.pooling import guarding
from workfleet.app.registry import Code
from workfleet.errors import ConfigError, NotFound, UsageError
from workfleet.model.durations import DurationLike
from workfleet.model.fleet import PoolReport
from workfleet.model.jobtypes import Job
from workfleet.payloads.hints import read_hints
from workfleet.pools.keys import MethodKeys
from workfleet.pools.options import PoolOptions
from workfleet.pools.pool import check_size
from workfleet.pools.proxy import pool_proxy
from workfleet.pools.reading import merged
from workfleet.pools.registry import Pools
from workfleet.pools.stats import PoolStats
from workfleet.ports.clock import Clock

from .pools import PoolDouble, travelled


class PoolDoubles:
    """What `Pooling` is for a worker, for a test: every pool of the application has its double from the start."""

    def __init__(self, basis: Basis, clock: Clock) -> None:
        """`clock` is the one on which calls take time."""
        self._clock = clock
        self.time_out: Callable[[], bool] = lambda: False
        """Ends the run that calls it as one that has passed its timeout."""
        self._marks = dict(basis.composition.registry.processes)
        self._container: AsyncContainer | None = None
        self.doubles = {CPU: PoolDouble(CPU, _nothing, clock=clock)}
        for cls, mark in self._marks.items():
            # Read as at a real start, so that an option that makes no sense fails here too.
            options = merged(_NO_OPTIONS, mark.name, mark.options, processes=1)
            if options.hash_key is not None:
                MethodKeys(cls, mark.name, options.hash_key)
            self.doubles[mark.name] = PoolDouble(
                mark.name, partial(self._make, cls), size=options.size, options=options, clock=clock
            )

    def providers(self) -> tuple[Provider, Provider]:
        own, proxies = Provider(scope=Scope.APP), Provider(scope=Scope.APP, component=POOLS)
        own.provide(self._steering, provides=Pools)
        for cls in self._marks:
            # Not cached: a child that died is followed by one with an object of its own.
            own.provide(cls, cache=False)
            proxies.provide(self._proxy_of(cls), provides=cls)
        return own, proxies

    async def start(self, container: AsyncContainer) -> None:
        self._container = container
        await container.get(Pools)

    async def invocation(self, code: Code, pool: Any) -> Invoke:
        """A handler that names a pool runs here, as the function that it is. Raises `ConfigError` for a pool that is
        not there."""
        double = self._named(code, pool)
        hints = read_hints(code.fn, method=code.owner is not None)
        assert self._container is not None
        injected = await Injected.of(self._container, code, hints)

        async def invoke(job: Job[Any]) -> object:
            there = structs.replace(job, data=travelled(job.data, f"payload of {code.label}"))
            left_ms = None if job.deadline_ms is None else job.deadline_ms - self._clock.now_ms()
            return await double.run(
                code.label, lambda _: injected.call(there, run_here), left_ms=left_ms, time_out=self._time_out
            )

        return invoke

    def _time_out(self) -> bool:
        return self.time_out()  # set when the worker has started

    def states(self) -> tuple[PoolReport, ...]:
        return ()

    def get(self, which: type[Any] | str) -> PoolDouble:
        """The double of a class or name. Raises `NotFound`."""
        name = self._marks[which].name if isinstance(which, type) and which in self._marks else which
        double = self.doubles.get(name) if isinstance(name, str) else None
        if double is None:
            wanted = which if isinstance(which, str) else which.__qualname__
            raise NotFound(f"there is no pool {wanted!r}. Pools: {', '.join(sorted(self.doubles))}")
        return double

    async def _steering(self, guards: GuardMaker) -> AsyncIterator[Any]:
        proxies = {cls: pool_proxy(cls, self.get(cls), guarding(cls, guards)) for cls in self._marks}
        yield PoolsDouble(self, proxies)
        for double in self.doubles.values():
            await double.aclose()

    async def _make(self, cls: type[Any]) -> object:
        assert self._container is not None
        return await self._container.get(cls)

    def _proxy_of(self, cls: type[Any]) -> Callable[..., Awaitable[Any]]:
        async def proxy(pools: Any) -> Any:
            return await pools.pool(cls)

        proxy.__annotations__ = {"pools": Annotated[Pools, FromComponent("")], "return": cls}
        return proxy

    def _named(self, code: Code, pool: Any) -> PoolDouble:
        name, options = pool_name(self._marks, pool), {name: each.options for name, each in self.doubles.items()}
        problems = named_problems(code, name, options, importable=True)
        if problems:
            raise ConfigError(problems)
        return self.doubles[name]


class PoolsDouble:
    """What code gets that asks for `Pools`: the same proxies; scaling and recycling are noted by the doubles."""

    def __init__(self, doubles: PoolDoubles, proxies: dict[type[Any], Any]) -> None:
        self._doubles, self._proxies = doubles, proxies
        self._sizes: dict[type[Any], int] = {}

    async def pool(self, worker: type[Any], **options: Any) -> Any:
        """The class's proxy. Options are checked, and only `size` means something here.

        Raises `UsageError` for another size than the one that was given before, as a pool that has started does.
        """
        double = self._doubles.get(worker)
        wanted = merged(_NO_OPTIONS, double.name, options, processes=1).size  # type: ignore[arg-type]
        if worker not in self._sizes and "size" in options and not double.calls:
            double.size = wanted
        size = self._sizes.setdefault(worker, double.size)
        if "size" in options and wanted != size:
            raise UsageError(f"pool {double.name!r} exists with size={size}: it cannot have size={wanted} as well")
        return self._proxies[worker]

    def get(self, which: type[Any] | str) -> PoolDouble:
        return self._doubles.get(which)

    async def scale(self, which: type[Any] | str, size: int) -> None:
        """Raises `UsageError` for a size that the pool cannot have, as a real one does."""
        double = self._doubles.get(which)
        check_size(double.options, size)
        double.size = size

    async def recycle(self, which: type[Any] | str) -> None:
        await self._doubles.get(which).aclose()

    async def drain(self, which: type[Any] | str, timeout: DurationLike = "30s") -> int:
        self._doubles.get(which)
        return 0

    def list(self) -> tuple[str, ...]:
        return tuple(sorted(self._doubles.doubles))

    def stats(self) -> dict[str, PoolStats]:
        """Sizes, and how many calls there were: there are no children to tell of."""
        return {name: self._doubles.get(name).stats() for name in self.list()}


_NO_OPTIONS = PoolOptions(name="", size=1)


async def _nothing() -> object:
    return None
