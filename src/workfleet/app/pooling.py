"""The application's pools: their options from settings, their proxies in the graph, and handlers that run in them."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Annotated, Any

import msgspec
from dishka import AsyncContainer, FromComponent, Provider, Scope

from workfleet.errors import ConfigError, PayloadRejected, Problem
from workfleet.model.declared import guards_of
from workfleet.model.jobtypes import Job
from workfleet.model.policy import Backoff
from workfleet.payloads.hints import result_hint
from workfleet.pools.cpus import auto_size
from workfleet.pools.marks import ProcessOptions, public_methods
from workfleet.pools.options import ChildSpec, PoolOptions, RestartPolicy, merged
from workfleet.pools.pool import ProcessPool
from workfleet.pools.proxy import Middleware
from workfleet.pools.registry import Pools, PoolSetup
from workfleet.ports.guards import Call
from workfleet.settings.sections import PoolsSettings

from .builtins import Basis
from .compile import Invoke, around
from .graph import POOLS
from .guarding import GuardMaker
from .in_child import HANDLER_METHOD, facts_of
from .policies import milliseconds
from .registry import Code

CPU = "cpu"
"""The pool that always exists, for handlers that say `pool="cpu"`."""

_STOP_MS = 5_000


class Pooling:
    """Makes the pools of one process, when they are first needed."""

    def __init__(self, basis: Basis, *, locator: str | None, config: Mapping[str, Any], processes: int) -> None:
        self._basis, self._locator, self._config, self._processes = basis, locator, dict(config), processes
        self._marks = dict(basis.composition.registry.processes)
        self._pools: Pools | None = None
        self._settings: PoolsSettings | None = None

    def providers(self) -> tuple[Provider, Provider]:
        """Of `Pools`, and of every `Pool[W]`."""
        own, proxies = Provider(scope=Scope.APP), Provider(scope=Scope.APP, component=POOLS)
        own.provide(self._make_pools)
        for cls in self._marks:
            proxies.provide(self._proxy_of(cls), provides=cls)
        return own, proxies

    async def start(self, container: AsyncContainer) -> None:
        """Make the pools; each starts its children when it is first used."""
        await container.get(Pools)

    async def invocation(self, code: Code, pool: Any) -> Invoke:
        """What runs a handler in a pool's child. Raises `ConfigError` for a pool that is not there."""
        process_pool = self._named(code, pool)
        process_pool.start()

        async def invoke(job: Job[Any]) -> object:
            arguments = (code.where, facts_of(job), job.data)
            # The run's own timeout and cancellation end the call, and with it the child that works on it.
            return await process_pool.call(HANDLER_METHOD, arguments, timeout_ms=None, listener=_Listener(job))

        return invoke

    def states(self) -> dict[str, dict[str, Any]]:
        """Each started pool's state and counts by name."""
        if self._pools is None:
            return {}
        stats = self._pools.stats().values()
        return {each.name: msgspec.to_builtins(each) for each in stats if each.state != "new"}

    async def _make_pools(self, settings: PoolsSettings, guards: GuardMaker) -> AsyncIterator[Pools]:
        self._settings = settings
        pools = Pools(
            lambda cls, options: self._setup(cls, options, guards),
            clock=self._basis.clock,
            publish=self._basis.bus.publish,
        )
        pools.add(self._child("handlers"), self._options(CPU, {}))
        for cls in self._marks:
            pools.declare(cls)
        self._pools = pools
        yield pools
        await pools.aclose(_STOP_MS)

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
        written: ProcessOptions = {**mark.options, **options}
        child = self._child("worker_object", cls.__module__, cls.__qualname__) if self._locator else ChildSpec.of(cls)
        return PoolSetup(child, self._options(mark.name, written), guarding(cls, guards))

    def _child(self, factory: str, *arguments: str) -> ChildSpec:
        return ChildSpec(f"workfleet.app.in_child:{factory}", (self._locator, self._config, *arguments))

    def _options(self, name: str, written: Mapping[str, Any]) -> PoolOptions:
        assert self._settings is not None
        override = self._settings.overrides.get(name)
        said = {} if override is None else {field: getattr(override, field) for field in override.model_fields_set}
        return merged(_defaults(self._settings, self._processes), name, {**written, **said}, processes=self._processes)  # type: ignore[typeddict-item]

    def _named(self, code: Code, pool: Any) -> ProcessPool:
        assert self._pools is not None
        if self._locator is None:
            raise ConfigError(
                Problem(code.where, f"pool={pool!r} needs an application that a child can import: use `workfleet run`")
            )
        name = self._marks[pool].name if isinstance(pool, type) and pool in self._marks else pool
        if name not in self._pools.list():
            known = ", ".join(self._pools.list())
            raise ConfigError(Problem(code.where, f"pool={name!r}: there is no such pool. Pools: {known}"))
        return self._pools.get(name)


class _Listener:
    """Hears what a handler says in its child, and says it under the run's claim."""

    def __init__(self, job: Job[Any]) -> None:
        self._job = job

    def log(self, entry: Any) -> None:
        self._job.log(str(entry))

    def progress(self, value: Any) -> None:
        _ = self._job.progress(value)  # sent without being awaited; a stale claim ends the run by itself


def guarding(cls: type[Any], guards: GuardMaker) -> Middleware:
    """The guards of a pool's methods: they act in the parent, around the call."""

    def around_method(name: str, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        marked = public_methods(cls)[name]
        specs = guards_of(marked.adapter or marked.fn)
        if not specs:
            return call
        signature = inspect.signature(marked.fn)
        label = f"{cls.__name__}.{name}"
        parameters = list(signature.parameters)[1:]
        try:
            made = guards(specs, f"{cls.__module__}.{label}", parameters, result_hint(marked.fn))
        except (PayloadRejected, ValueError) as error:
            raise ConfigError(Problem(f"{cls.__module__}.{label}", str(error))) from None

        async def guarded(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(None, *args, **kwargs)
            bound.apply_defaults()
            values = {name: bound.arguments[name] for name in parameters if name in bound.arguments}
            return await around(made, Call(label, values), lambda: call(*args, **kwargs))

        return guarded

    return around_method


def _defaults(settings: PoolsSettings, processes: int) -> PoolOptions:
    policy, backoff = settings.restart_policy, settings.restart_policy.backoff
    return PoolOptions(
        name="",
        size=auto_size(processes),
        memory_bytes=settings.memory,
        call_timeout_ms=None if settings.call_timeout is None else milliseconds(settings.call_timeout),
        startup_timeout_ms=milliseconds(settings.startup_timeout),
        graceful_timeout_ms=milliseconds(settings.graceful_timeout),
        queue_limit=settings.max_queue,
        health_interval_ms=milliseconds(settings.health_check.interval),
        health_timeout_ms=milliseconds(settings.health_check.timeout),
        sweep_interval_ms=milliseconds(settings.sweep_interval),
        restart=RestartPolicy(
            enabled=policy.enabled,
            max_restarts=policy.max_restarts,
            window_ms=milliseconds(policy.window),
            delay_ms=milliseconds(policy.delay),
            backoff=Backoff(
                "exponential", milliseconds(backoff.initial), milliseconds(backoff.max), "full", backoff.factor
            ),
        ),
    )
