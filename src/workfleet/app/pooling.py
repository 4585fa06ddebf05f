"""The application's pools: their options from settings, their proxies in the graph, and handlers that run in them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Annotated, Any

from dishka import AsyncContainer, FromComponent, Provider, Scope

from workfleet.errors import ConfigError, PayloadRejected, Problem
from workfleet.model.fleet import PoolReport
from workfleet.model.jobtypes import Job
from workfleet.observe.logs.context import current_keep
from workfleet.observe.metrics.registry import MetricsRegistry
from workfleet.observe.trace import current_trace, remote_span, told_by
from workfleet.pools.marks import ProcessOptions
from workfleet.pools.options import ChildSpec
from workfleet.pools.pool import ProcessPool
from workfleet.pools.proxy import Middleware
from workfleet.pools.registry import Pools, PoolSetup
from workfleet.ports.guards import Call
from workfleet.ports.spans import CallTracing
from workfleet.settings.pools import PoolsSettings
from workfleet.settings.sections import LogSettings, MetricsSettings, TracingSettings

from .builtins import Basis
from .child_metrics import Address, MetricsInbox
from .compile import Invoke, around
from .graph import POOLS
from .guarding import GuardMaker
from .in_child import HANDLER_METHOD, facts_of
from .log_calls import Keeper, KeptLine, carry
from .pool_checks import cpu_options, guarded_method, named_problems, pool_name, pool_options
from .pool_orders import reports_of
from .pool_recipes import recipe_of
from .registry import Code

_STOP_MS = 5_000
_IN_CHILDREN = "workfleet.observe.trace_calls:in_call"


class Pooling:
    """Makes the pools of one process, when they are first needed."""

    def __init__(self, basis: Basis, *, locator: str | None, config: Mapping[str, Any], processes: int) -> None:
        self._basis, self._locator, self._config, self._processes = basis, locator, dict(config), processes
        self._marks = dict(basis.composition.registry.processes)
        self._pools: Pools | None = None
        self._container: AsyncContainer | None = None
        self._settings: PoolsSettings | None = None
        self._measured: Address | None = None
        """Where children tell what they have measured."""

    def providers(self) -> tuple[Provider, Provider]:
        """Of `Pools`, and of every `Pool[W]`."""
        own, proxies = Provider(scope=Scope.APP), Provider(scope=Scope.APP, component=POOLS)
        own.provide(self._make_pools)
        for cls in self._marks:
            proxies.provide(self._proxy_of(cls), provides=cls)
        return own, proxies

    async def start(self, container: AsyncContainer) -> None:
        """Make the pools; each starts its children when it is first used."""
        self._container = container
        await container.get(Pools)

    async def invocation(self, code: Code, pool: Any) -> Invoke:
        """What runs a handler in a pool's child. Raises `ConfigError` for a pool that is not there."""
        process_pool = self._named(code, pool)
        process_pool.start()

        async def invoke(job: Job[Any]) -> object:
            arguments = (code.where, facts_of(job), job.data)
            # The run's own timeout and cancellation end the call, and with it the child that works on it.
            listener, shown = _Listener(job), f"job:{job.name}"
            return await process_pool.call_as(shown, HANDLER_METHOD, arguments, timeout_ms=None, listener=listener)

        return invoke

    def states(self) -> tuple[PoolReport, ...]:
        """The pools that were started, as they are now."""
        reports = () if self._pools is None else reports_of(self._pools)
        return tuple(report for report in reports if report.state != "new")

    async def _make_pools(
        self,
        settings: PoolsSettings,
        guards: GuardMaker,
        registry: MetricsRegistry,
        metrics: MetricsSettings,
        tracing: TracingSettings,
    ) -> AsyncIterator[Pools]:
        self._settings = settings
        inbox = MetricsInbox(registry) if metrics.collection.enabled else None
        self._measured = inbox.address if inbox else None
        publish = self._basis.bus.publish
        begin = partial(remote_span, failed=told_by(publish))
        try:
            pools = Pools(
                lambda cls, options: self._setup(cls, options, guards),
                clock=self._basis.clock,
                publish=publish,
                trace=CallTracing(begin, current_trace, _IN_CHILDREN) if tracing.enabled else None,
                carry=carry,
            )
            self._declare(pools)
            self._pools = pools
            yield pools
            await pools.aclose(_STOP_MS)
        finally:
            if inbox is not None:
                inbox.close()

    def _declare(self, pools: Pools) -> None:
        """Every pool of the application. Raises `ConfigError` with what is wrong with any of them."""
        problems: list[Problem] = []
        for declare in (partial(self._add_cpu, pools), *(partial(pools.declare, cls) for cls in self._marks)):
            try:
                declare()
            except ConfigError as error:
                problems += [problem for problem in error.problems if problem not in problems]
        if problems:
            raise ConfigError(problems)

    def _add_cpu(self, pools: Pools) -> None:
        assert self._settings is not None
        pools.add(self._child("handlers"), cpu_options(self._settings, processes=self._processes))

    def _proxy_of(self, cls: type[Any]) -> Callable[..., Awaitable[Any]]:
        async def proxy(pools: Any) -> Any:
            return await pools.pool(cls)

        proxy.__annotations__ = {"pools": Annotated[Pools, FromComponent("")], "return": cls}
        return proxy

    def _setup(self, cls: type[Any], options: ProcessOptions, guards: GuardMaker) -> PoolSetup:
        mark = self._marks.get(cls)
        if mark is None:
            name = f"{cls.__module__}.{cls.__qualname__}"
            raise ConfigError(Problem(name, "no module lists this class under its jobs, or it has no @process"))
        assert self._settings is not None
        read = pool_options(self._settings, mark.name, mark.options, options, processes=self._processes)
        middleware = guarding(cls, guards)
        if read.isolation != "process":
            assert self._container is not None
            here = ChildSpec(f"{cls.__module__}:{cls.__qualname__}")
            return PoolSetup(here, read, middleware, recipe_of(cls, self._container))
        child = self._child("worker_object", cls.__module__, cls.__qualname__) if self._locator else self._bare(cls)
        return PoolSetup(child, read, middleware)

    def _bare(self, cls: type[Any]) -> ChildSpec:
        """The class alone, where children cannot import the application."""
        logs = self._basis.composition.loaded.section("log", LogSettings).model_dump(mode="json")
        return ChildSpec("workfleet.app.bare_child:by_name", (logs, *ChildSpec.of(cls).args))

    def _child(self, factory: str, *arguments: str) -> ChildSpec:
        return ChildSpec(f"workfleet.app.in_child:{factory}", (self._locator, self._config, self._measured, *arguments))

    def _named(self, code: Code, pool: Any) -> ProcessPool:
        assert self._pools is not None
        name, pools = pool_name(self._marks, pool), self._pools
        options = {name: pools.get(name).options for name in pools.list()}
        problems = named_problems(code, name, options, importable=self._locator is not None)
        if problems:
            raise ConfigError(problems)
        return pools.get(name)


class _Listener:
    """Hears what a handler says in its child, and says it under the run's claim."""

    def __init__(self, job: Job[Any]) -> None:
        self._job, self._kept = job, Keeper(current_keep())

    def log(self, entry: Any) -> None:
        if isinstance(entry, KeptLine):
            self._kept.log(entry)
        else:
            self._job.log(str(entry))

    def progress(self, value: Any) -> None:
        _ = self._job.progress(value)  # sent without being awaited; a stale claim ends the run by itself


def guarding(cls: type[Any], guards: GuardMaker) -> Middleware:
    """The guards of a pool's methods: they act in the parent, around the call."""

    def around_method(name: str, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        method = guarded_method(cls, name)
        if method is None:
            return call
        signature, label, parameters = method.signature, method.label, method.parameters
        try:
            made = guards.of_method(method.specs, method.where, parameters, method.result)
        except (PayloadRejected, ValueError) as error:
            raise ConfigError(Problem(method.where, str(error))) from None

        async def guarded(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(None, *args, **kwargs)
            bound.apply_defaults()
            values = {name: bound.arguments[name] for name in parameters if name in bound.arguments}
            return await around(made, Call(label, values), lambda: call(*args, **kwargs))

        return guarded

    return around_method
