"""`Module`: a named value of providers, jobs, settings, queues and hooks. It starts nothing; the app reads it."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeVar, Unpack, overload

from dishka import Provider
from pydantic import BaseModel

from workfleet.events import Event, ListenerDropped, ListenerFailed, SubscriberFailed
from workfleet.model.durations import DurationLike, duration_ms
from workfleet.model.jobtypes import JobType
from workfleet.model.options import HandlerOptions, ScheduleOptions
from workfleet.model.policy import OwnBackoff
from workfleet.model.queue import Queue
from workfleet.model.runs import RUN_KINDS, RunKind
from workfleet.model.setting import Setting
from workfleet.observe.logs.options import LEVELS, OwnDestination, Takes
from workfleet.queues.declare import HandlerDecorator, TypedHandlerDecorator
from workfleet.queues.declare import handler as record_handler
from workfleet.schedules.declare import ScheduleSpec, recorder
from workfleet.supervision.service import Service

P = TypeVar("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S", bound=Takes | logging.Handler)

Hook = Literal["init", "bootstrap", "drain", "shutdown"]


@dataclass(frozen=True)
class Listener:
    """A function that is told of runs, and of which; or of events of the catalogue."""

    fn: Callable[..., Any]
    kinds: frozenset[RunKind]
    events: frozenset[type[Event]]
    timeout_ms: int

    @property
    def where(self) -> str:
        """Its name in messages."""
        return f"{self.fn.__module__}.{self.fn.__qualname__}"


@dataclass(frozen=True)
class DeclaredIndicator:
    """A function that says how something is, for health."""

    name: str
    fn: Callable[..., Any]
    critical: bool
    timeout_ms: int | None

    @property
    def where(self) -> str:
        """Its name in messages."""
        return f"{self.fn.__module__}.{self.fn.__qualname__}"


class Module:
    """A part of an application.

    `jobs` are classes with decorated methods, decorated functions and `@process` classes. `settings` is the type of the
    section that is named after the module, injected by type. `queues` are listened to even where no handler is bound to
    them, and a `Queue` says how it is worked off. `backoffs` are functions for `own_backoff`, by name. `given` are
    values for the built-in sections, below everything that an operator sets; `factories` make such values from injected
    arguments. `services` are loops that every worker process runs, provided by the graph; they stop first."""

    def __init__(
        self,
        name: str,
        *,
        imports: Sequence[Module] = (),
        providers: Sequence[Provider] = (),
        jobs: Sequence[Any] = (),
        settings: type[BaseModel] | None = None,
        queues: Sequence[str | Queue] = (),
        backoffs: Mapping[str, OwnBackoff] | None = None,
        given: Mapping[str, Mapping[str, Any]] | None = None,
        factories: Mapping[str, Callable[..., Any]] | None = None,
        services: Sequence[type[Service]] = (),
    ) -> None:
        if not name or not name.replace("-", "_").isidentifier():
            raise ValueError(f"a module's name is letters, digits, '_' and '-': {name!r}")
        self.name = name
        self.imports = tuple(imports)
        self.providers = tuple(providers)
        self.jobs: list[Any] = list(jobs)
        self.settings = settings
        self.queues = tuple(each if isinstance(each, Queue) else Queue(each) for each in queues)
        self.backoffs = dict(backoffs or {})
        self.given = dict(given or {})
        self.factories = dict(factories or {})
        self.services = tuple(services)
        self.listeners: list[Listener] = []
        self.indicators: list[DeclaredIndicator] = []
        self.log_destinations: list[OwnDestination] = []
        self.hooks: dict[Hook, list[Callable[..., Any]]] = {"init": [], "bootstrap": [], "drain": [], "shutdown": []}

    @overload
    def handler(self, name: JobType[P, R], /, **options: Unpack[HandlerOptions]) -> TypedHandlerDecorator[P, R]: ...
    @overload
    def handler(self, name: str | None = None, /, **options: Unpack[HandlerOptions]) -> HandlerDecorator: ...
    def handler(self, name: Any = None, /, **options: Unpack[HandlerOptions]) -> Any:
        """`@handler` for a function of this module."""
        record = record_handler(name, **options)

        def add(fn: Any) -> Any:
            plain = record(fn)
            self.jobs.append(plain)
            return plain

        return add

    @overload
    def schedule(
        self, name: str | None = None, /, *, cron: str | Setting, **options: Unpack[ScheduleOptions]
    ) -> Callable[[F], F]: ...
    @overload
    def schedule(
        self, name: str | None = None, /, *, every: DurationLike | Setting, **options: Unpack[ScheduleOptions]
    ) -> Callable[[F], F]: ...
    @overload
    def schedule(
        self, name: str | None = None, /, *, at: datetime, **options: Unpack[ScheduleOptions]
    ) -> Callable[[F], F]: ...
    @overload
    def schedule(self, name: str | None = None, /, **options: Unpack[ScheduleOptions]) -> Callable[[F], F]: ...
    def schedule(
        self,
        name: str | None = None,
        /,
        *,
        cron: str | Setting | None = None,
        every: DurationLike | Setting | None = None,
        at: datetime | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Callable[[F], F]:
        """`@schedule` for a function of this module."""
        record = recorder(ScheduleSpec(name, cron, every, at, options))

        def add(fn: F) -> F:
            plain = record(fn)
            self.jobs.append(plain)
            return plain

        return add

    def on_init(self, fn: F, /) -> F:
        """Call a function once its module's dependencies are there, before anything runs. Parameters are injected."""
        return self._hook("init", fn)

    def on_bootstrap(self, fn: F, /) -> F:
        """Call a function when every module is initialised, before the first job is claimed."""
        return self._hook("bootstrap", fn)

    def on_drain(self, fn: F, /) -> F:
        """Call a function when the process stops, before running jobs are waited for."""
        return self._hook("drain", fn)

    def on_shutdown(self, fn: F, /) -> F:
        """Call a function when no job runs any more, in reverse order, before resources are closed."""
        return self._hook("shutdown", fn)

    def listener(self, *kinds: RunKind | type[Event], timeout: DurationLike = "30s") -> Callable[[F], F]:
        """Call a function after the start of runs, after their end, or for slots that made no run, as `kinds` say:
        "start", "success", "failure", "retry", "skip" and "miss". Or for events of the catalogue, by their classes in
        `workfleet.events`.

        It hears of every run of its process, of schedules and of other jobs, whichever module's, in their order. Its
        parameters are injected; one of type `RunEvent`, or of the classes that it names, is what happened. A coroutine
        function runs in the loop, another one in a thread. No job waits for it; one that raises or that takes longer
        than `timeout` is told of in the log and goes on with the next event. Raises ValueError for what is no kind and
        no duration."""
        classes = [kind for kind in kinds if isinstance(kind, type)]
        names = [kind for kind in kinds if not isinstance(kind, type)]
        _check_kinds(names, classes)
        timeout_ms = duration_ms(timeout)
        if timeout_ms < 1:
            raise ValueError(f"timeout={timeout!r}: a listener needs some time")

        def add(fn: F) -> F:
            self.listeners.append(Listener(fn, frozenset(names), frozenset(classes), timeout_ms))
            return fn

        return add

    def health_indicator(
        self, name: str, /, *, critical: bool = True, timeout: DurationLike | None = None
    ) -> Callable[[F], F]:
        """Ask a function how something is, at the interval of `HealthModule`. Its parameters are injected. It returns
        an `Indication`, or None: healthy; what it raises makes it unhealthy. A coroutine function runs in the loop,
        another one in a thread.

        One that is unhealthy makes its worker unready where it is `critical`, else degraded. `timeout` is how long it
        may take (`HealthModule(timeout=…)`); one that takes longer is unhealthy, and is not asked again before it has
        returned. Raises ValueError for what is no name and no duration."""
        if not name.strip():
            raise ValueError(f"a health indicator needs a name: {name!r}")
        timeout_ms = None if timeout is None else duration_ms(timeout)
        if timeout_ms is not None and timeout_ms < 1:
            raise ValueError(f"timeout={timeout!r}: a health indicator needs some time")

        def add(fn: F) -> F:
            self.indicators.append(DeclaredIndicator(name, fn, critical, timeout_ms))
            return fn

        return add

    def log_destination(self, name: str, /, *, level: str | None = None) -> Callable[[S], S]:
        """Give a function each line of the log, as a `LogLine` without secrets; or a handler of `logging`.

        It is called in a thread of its own, in worker processes, which get the lines of pool children too. Nothing
        waits for it: what it does not keep up with is dropped and counted. What it raises is told, and the next line is
        tried. `level` is the lowest that it gets (`log.level`). Raises ValueError for what is no name, no level and no
        plain function."""
        if not name.strip():
            raise ValueError(f"a log destination needs a name: {name!r}")
        if level is not None and level not in LEVELS:
            raise ValueError(f"level={level!r}: it is one of {', '.join(LEVELS)}")

        def add(send: S) -> S:
            if not (callable(send) or isinstance(send, logging.Handler)) or inspect.iscoroutinefunction(send):
                raise ValueError(f"{send!r}: a log destination is a plain function of one line, or a logging.Handler")
            self.log_destinations.append(OwnDestination(name=name, send=send, level=level))
            return send

        return add

    def _hook(self, when: Hook, fn: F) -> F:
        self.hooks[when].append(fn)
        return fn

    def __repr__(self) -> str:
        return f"Module({self.name!r})"


def _check_kinds(names: Sequence[RunKind], classes: Sequence[type[Any]]) -> None:
    unknown = [name for name in names if name not in RUN_KINDS]
    if unknown or not (names or classes):
        said = f"{unknown[0]!r} is none of them" if unknown else "it names none"
        raise ValueError(f"a listener is for {', '.join(RUN_KINDS)}, or for classes of events: {said}")
    if names and classes:
        raise ValueError("a listener is for runs or for events, not for both: write two")
    for each in classes:
        if not issubclass(each, Event) or each is Event:
            raise ValueError(f"{each.__qualname__} is no event of workfleet.events")
        if each in _OF_LISTENERS:
            raise ValueError(f"{each.__qualname__} is about listeners: one that fails would hear of itself for ever")


_OF_LISTENERS = (ListenerFailed, ListenerDropped, SubscriberFailed)


def in_order(root: Module) -> list[Module]:
    """The module and all that it imports, dependencies first, each once. Raises ValueError for an import cycle and for
    two modules of one name."""
    done: dict[str, Module] = {}
    path: list[Module] = []

    def visit(module: Module) -> None:
        if module in path:
            circle = [*path[path.index(module) :], module]
            raise ValueError("modules import each other: " + " -> ".join(each.name for each in circle))
        known = done.get(module.name)
        if known is module:
            return
        if known is not None or module.name in [each.name for each in path]:
            raise ValueError(f"two modules are named {module.name!r}: an app is a module too")
        path.append(module)
        for imported in module.imports:
            visit(imported)
        path.pop()
        done[module.name] = module

    visit(root)
    return list(done.values())
