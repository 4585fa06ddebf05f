"""The pools of a `Fleet`: doubles in this process in place of child processes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from dishka import AsyncContainer, FromComponent, Provider, Scope

from workfleet.app.builtins import Basis
from workfleet.app.compile import Invoke
from workfleet.app.graph import POOLS
from workfleet.app.guarding import GuardMaker
from workfleet.app.inject import Injected, run_here
from workfleet.app.pooling import guarding
from workfleet.app.registry import Code
from workfleet.errors import UsageError
from workfleet.model.jobtypes import Job
from workfleet.payloads.hints import read_hints
from workfleet.pools.proxy import pool_proxy
from workfleet.pools.registry import Pools

from .pools import PoolDouble


class PoolDoubles:
    """What `Pooling` is for a worker, for a test. `made` holds the doubles by worker class, once something uses
    them."""

    def __init__(self, basis: Basis) -> None:
        self._marks = dict(basis.composition.registry.processes)
        self._container: AsyncContainer | None = None
        self.made: dict[type[Any], PoolDouble] = {}

    def providers(self) -> tuple[Provider, Provider]:
        own, proxies = Provider(scope=Scope.APP), Provider(scope=Scope.APP, component=POOLS)
        own.provide(_refuse, provides=Pools)
        for cls in self._marks:
            own.provide(cls)
            proxies.provide(self._proxy_of(cls), provides=cls)
        return own, proxies

    async def start(self, container: AsyncContainer) -> None:
        self._container = container

    async def invocation(self, code: Code, pool: Any) -> Invoke:
        """A handler that names a pool runs here, as the function that it is."""
        assert self._container is not None
        hints = read_hints(code.fn, method=code.owner is not None)
        injected = await Injected.of(self._container, code, hints)

        async def invoke(job: Job[Any]) -> object:
            return await injected.call(job, run_here)

        return invoke

    def states(self) -> dict[str, dict[str, Any]]:
        return {}

    def _proxy_of(self, cls: type[Any]) -> Callable[..., Awaitable[Any]]:
        async def proxy(served: Any, guards: Any) -> Any:
            double = self.made[cls] = PoolDouble(self._marks[cls].name, served)
            return pool_proxy(cls, double, guarding(cls, guards))

        main = FromComponent("")
        proxy.__annotations__ = {"served": Annotated[cls, main], "guards": Annotated[GuardMaker, main], "return": cls}
        return proxy


def _refuse() -> Any:
    raise UsageError("a Fleet has no Pools to steer: inject Pool[YourWorker], or replace Pools with an object of yours")
