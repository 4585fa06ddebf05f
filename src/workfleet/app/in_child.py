"""What a pool's child serves: an object that the application's own graph makes, or its queue handlers.

The child imports the application and builds the graph without starting it: constructor arguments are injected, the
store is opened only if something asks for it, and nothing is claimed or fired here."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import msgspec
from dishka import AsyncContainer, Provider, Scope

from workfleet.bus import Bus
from workfleet.clock import SystemClock
from workfleet.errors import HandlerNotFound, PoolError
from workfleet.model.jobtypes import Job
from workfleet.observe.metrics.registry import MetricsRegistry
from workfleet.payloads.codec import encode_result
from workfleet.payloads.hints import read_hints
from workfleet.pools.child_context import CallContext, current
from workfleet.pools.registry import Pools
from workfleet.settings.sections import LogSettings
from workfleet.stores.open import open_store

from .assemble import container_of
from .builtins import Basis
from .child_metrics import Address, MetricsOutbox, enqueues_counted
from .composition import Composition, composition_of
from .definitions import schedules_queue
from .graph import POOLS
from .inject import Injected, run_here
from .job_usage import JobUsage
from .logs import to_parent
from .queueing import payload_limits

HANDLER_METHOD = "workfleet_handler"


@asynccontextmanager
async def worker_object(
    locator: str, config: Mapping[str, Any], measured: Address | None, module: str, qualname: str
) -> AsyncIterator[object]:
    """The object of a `@process` class, its constructor's arguments injected. What it measures goes to `measured`."""
    async with _graph(locator, config, measured) as (container, runner):
        cls = _class(module, qualname)
        served = await container.get(cls)

        async def run(_self: object, where: str, facts: Mapping[str, Any], data: object) -> object:
            return await runner.workfleet_handler(where, facts, data)

        # Handlers may name this pool: the object's class gets one more method, and nothing else of it changes.
        served.__class__ = type(cls.__name__, (cls,), {"__slots__": (), "__module__": module, HANDLER_METHOD: run})
        yield served


@asynccontextmanager
async def handlers(locator: str, config: Mapping[str, Any], measured: Address | None) -> AsyncIterator[ChildHandlers]:
    """The application's handlers and scheduled functions, to be run by their code's place."""
    async with _graph(locator, config, measured) as (_, runner):
        yield runner


@asynccontextmanager
async def _graph(
    locator: str, config: Mapping[str, Any], measured: Address | None
) -> AsyncIterator[tuple[AsyncContainer, ChildHandlers]]:
    composition = composition_of(locator, config)
    to_parent(composition.loaded.section("log", LogSettings))
    basis = Basis(composition, SystemClock(), Bus(), "pool child", open_store)
    registry = MetricsRegistry()
    container = container_of(basis, registry, _no_pools(composition))
    outbox = None if measured is None else MetricsOutbox(registry, measured)
    if outbox is not None:
        basis.bus.subscribe(enqueues_counted(registry))
    try:
        yield container, ChildHandlers(composition, container, None if measured is None else JobUsage(registry))
    finally:
        await container.close()
        if outbox is not None:
            outbox.close()


class ChildHandlers:
    """Runs one handler at a time for the parent, which holds its claim, its guards and its timeout."""

    def __init__(self, composition: Composition, container: AsyncContainer, usage: JobUsage | None) -> None:
        """`usage` measures the runs; None: nobody does."""
        self._container, self._usage = container, usage
        registry = composition.registry
        codes = [entry.code for entry in registry.handlers] + [entry.code for entry in registry.schedules]
        self._codes = {code.where: code for code in codes}
        limits = payload_limits(composition.core, registry.queues.by_name)
        self._limits = {entry.code.where: limits.of(entry.queue, entry.job) for entry in registry.handlers}
        self._limit = limits.of(schedules_queue(composition.app.name))
        self._injected: dict[str, Injected] = {}

    async def workfleet_handler(self, where: str, facts: Mapping[str, Any], data: object) -> object:
        """Run the handler at `where` with a job of these facts and payload. Gives what its function returned."""
        code = self._codes.get(where)
        if code is None:
            raise HandlerNotFound(str(facts["queue"]), where, list(self._codes))
        hints = read_hints(code.fn, method=code.owner is not None)
        injected = self._injected.get(where)
        if injected is None:
            injected = self._injected[where] = await Injected.of(self._container, code, hints)
        job = _job(facts, data, self._limits.get(where, self._limit))
        with nullcontext() if self._usage is None else self._usage.measured(job.name, job.queue):
            return await injected.call(job, run_here)


class _ChildRun:
    """The `RunPort` of a run in a child: what it says travels to the parent, under whose claim it is kept."""

    def __init__(self, call: CallContext, limit: int) -> None:
        self._call, self._limit = call, limit

    def log(self, line: str) -> None:
        self._call.log(str(line))

    def progress(self, value: object) -> Awaitable[None]:
        # Encoded here, where the handler is, so that it and not the parent hears of what is no JSON.
        self._call.progress(msgspec.json.decode(encode_result(value, "progress", limit=self._limit)))
        return _Said()

    def cancelled(self) -> bool:
        return False  # a child whose run is over is killed: there is nothing to ask


class _Said:
    """Awaited, it is there at once."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


def _job(facts: Mapping[str, Any], data: Any, limit: int) -> Job[Any]:
    call = current()
    assert call is not None, "a handler in a child runs inside a call"
    return Job(
        data=data,
        id=facts["id"],
        name=facts["name"],
        queue=facts["queue"],
        attempt=facts["attempt"],
        max_attempts=facts["max_attempts"],
        deadline_ms=facts["deadline_ms"],
        schedule=facts["schedule"],
        slot_ms=facts["slot_ms"],
        tags=tuple(facts["tags"]),
        metadata=dict(facts["metadata"]),
        group=facts["group"],
        trace=facts["trace"],
        _port=_ChildRun(call, limit),
    )


def facts_of(job: Job[Any]) -> dict[str, Any]:
    """A job's facts as they travel to a child."""
    return {
        "id": job.id,
        "name": job.name,
        "queue": job.queue,
        "attempt": job.attempt,
        "max_attempts": job.max_attempts,
        "deadline_ms": job.deadline_ms,
        "schedule": job.schedule,
        "slot_ms": job.slot_ms,
        "tags": list(job.tags),
        "metadata": dict(job.metadata),
        "group": job.group,
        "trace": job.trace,
    }


def _class(module: str, qualname: str) -> type[Any]:
    found: Any = importlib.import_module(module)
    for name in qualname.split("."):
        found = getattr(found, name)
    assert isinstance(found, type)
    return found


def _no_pools(composition: Composition) -> tuple[Provider, Provider]:
    """A child starts no pools of its own: whoever uses one here is told so. Who only holds one is not: a class may have
    handlers that run in the worker beside the one that runs here."""
    own, proxies = Provider(scope=Scope.APP), Provider(scope=Scope.APP, component=POOLS)
    own.provide(lambda: _NoPool("Pools"), provides=Pools)
    for cls, _ in composition.registry.processes:
        own.provide(cls)
        proxies.provide(_no_pool_of(cls), provides=cls)
    return own, proxies


def _no_pool_of(cls: type[Any]) -> Callable[[], Any]:
    return lambda: _NoPool(f"Pool[{cls.__qualname__}]")


class _NoPool:
    """What stands in a child where the worker has a pool."""

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __getattr__(self, name: str) -> Any:
        raise PoolError(
            f"{self._what}.{name}: pools are used from the worker, not from inside a pool's child. "
            "Call it from a handler that runs in the worker"
        )
