"""What an application declares, collected from its modules and packages. All problems are found before anything
starts."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

from workfleet.errors import ConfigError, MisplacedGuard, Problem
from workfleet.model.declared import Guarded, inherit_guards, marked
from workfleet.model.jobtypes import JobType
from workfleet.model.options import HandlerOptions
from workfleet.model.queue import Queue
from workfleet.modules.module import Module
from workfleet.pools.marks import ProcessMark
from workfleet.queues.declare import HandlerSpec
from workfleet.schedules.declare import ScheduleSpec

from .queueing import DeclaredQueues


@dataclass(frozen=True)
class Code:
    """Where declared code is: a plain function, or a method of a class that the container makes."""

    fn: Any
    owner: type[Any] | None
    attribute: str

    @property
    def where(self) -> str:
        return f"{self.fn.__module__}.{self.label}"

    @property
    def label(self) -> str:
        """`Class.method` or `function`: the default name of a schedule."""
        if self.owner is not None:
            return f"{self.owner.__name__}.{self.attribute}"
        return str(self.fn.__qualname__).rpartition("<locals>.")[2]


@dataclass(frozen=True)
class HandlerEntry:
    """One declared handler and its queue."""

    code: Code
    queue: str
    name: str
    job: JobType[Any, Any]
    options: HandlerOptions


@dataclass(frozen=True)
class ScheduleEntry:
    """One declared schedule and its name."""

    code: Code
    name: str
    spec: ScheduleSpec


@dataclass
class Registry:
    """Everything that was declared."""

    handlers: list[HandlerEntry] = field(default_factory=list)
    schedules: list[ScheduleEntry] = field(default_factory=list)
    processes: list[tuple[type[Any], ProcessMark]] = field(default_factory=list)
    classes: list[type[Any]] = field(default_factory=list)
    queues: DeclaredQueues = field(default_factory=DeclaredQueues)
    """Queues that are listened to, with what code says of them."""

    @property
    def concurrency(self) -> dict[str, int | None]:
        """Queues that are listened to, with their concurrency where code says it."""
        return dict(self.queues.concurrency)


def collect(modules: Sequence[Module], packages: Sequence[str], default_queue: str) -> Registry:
    """Collect what the modules and the packages declare. Raises `ConfigError` with all that is wrong."""
    registry, problems = Registry(), list[Problem]()
    seen: set[int] = set()
    declared = [(job, module.name) for module in modules for job in module.jobs]
    declared += [(job, package) for package in packages for job in _in_package(package, problems)]
    for job, source in declared:
        if id(job) in seen:
            continue
        seen.add(id(job))
        try:
            _add(registry, job, source, default_queue)
        except ConfigError as error:
            problems += error.problems
    for module in modules:
        for queue in module.queues:
            try:
                registry.queues.say(queue, f"module {module.name!r}")
            except ConfigError as error:
                problems += error.problems
    problems += _duplicates(registry)
    if problems:
        raise ConfigError(problems)
    return registry


def _add(registry: Registry, job: Any, source: str, default_queue: str) -> None:
    if isinstance(job, Guarded):
        raise ConfigError(Problem(f"{job.fn.__module__}.{job.fn.__qualname__}", _misplaced(job)))
    if not isinstance(job, type):
        if not inspect.isfunction(job):
            message = f"module {source!r} lists {job!r} under jobs: list classes and functions, not objects"
            raise ConfigError(Problem(f"{type(job).__module__}.{type(job).__qualname__}", message))
        _add_code(registry, Code(job, None, job.__name__), job, None, source, default_queue)
        return
    process = marked(job, ProcessMark)
    if process is not None:
        registry.processes.append((job, process))
        return
    found = list(_methods(job))
    if not found:
        message = "it has no method with @handler or @schedule and is no @process class"
        raise ConfigError(
            Problem(f"{job.__module__}.{job.__qualname__}", f"module {source!r} lists it under jobs, but {message}")
        )
    registry.classes.append(job)
    queue = next((said for base in job.__mro__ if (said := marked(base, Queue)) is not None), None)
    if queue is not None:
        registry.queues.say(queue, f"{job.__module__}.{job.__qualname__}")
    for attribute, declared_fn, fn in found:
        _add_code(registry, Code(fn, job, attribute), declared_fn, queue, source, default_queue)


def _add_code(
    registry: Registry, code: Code, declared_fn: Any, queue: Queue | None, source: str, default_queue: str
) -> None:
    handler, schedule = marked(declared_fn, HandlerSpec), marked(declared_fn, ScheduleSpec)
    if handler is None and schedule is None:
        raise ConfigError(
            Problem(code.where, f"module {source!r} lists it under jobs, but it has no @handler or @schedule")
        )
    if handler is not None:
        on = handler.job.queue or (queue.name if queue else default_queue)
        registry.handlers.append(HandlerEntry(code, on, handler.job.name, handler.job, handler.options))
        registry.queues.listen(on)
    if schedule is not None:
        registry.schedules.append(ScheduleEntry(code, schedule.name or code.label, schedule))


def _methods(cls: type[Any]) -> Iterator[tuple[str, Any, Any]]:
    """Attribute, declaring function, and the function that is called, for each declared method, inherited ones
    included. An override without a decorator keeps the declaration and the guards of what it overrides."""
    for attribute in dir(cls):
        fn = inspect.getattr_static(cls, attribute)
        where = f"{cls.__module__}.{cls.__qualname__}.{attribute}"
        if isinstance(fn, Guarded):
            raise ConfigError(Problem(where, _misplaced(fn)))
        if not inspect.isfunction(fn):
            if _is_declared(fn) or _is_declared(getattr(fn, "__func__", None)):
                message = f"it is a {type(fn).__name__}: only plain methods can be handlers and schedules"
                raise ConfigError(Problem(where, message))
            continue
        for ancestor in cls.__mro__:
            declaring = vars(ancestor).get(attribute)
            if _is_declared(declaring):
                inherit_guards(fn, declaring)
                yield attribute, declaring, fn
                break


def _is_declared(fn: Any) -> bool:
    return marked(fn, HandlerSpec) is not None or marked(fn, ScheduleSpec) is not None


def _duplicates(registry: Registry) -> Iterator[Problem]:
    places: dict[str, list[str]] = {}
    for handler in registry.handlers:
        places.setdefault(f"handler {handler.name!r} on queue {handler.queue!r}", []).append(handler.code.where)
    for schedule in registry.schedules:
        places.setdefault(f"schedule {schedule.name!r}", []).append(schedule.code.where)
    for cls, spec in registry.processes:
        places.setdefault(f"pool {spec.name!r}", []).append(f"{cls.__module__}.{cls.__qualname__}")
    for what, where in places.items():
        if len(where) > 1:
            yield Problem(what, f"declared {len(where)} times: {', '.join(where)}. Names are unique")


def _misplaced(guarded: Guarded) -> str:
    try:
        guarded()
    except MisplacedGuard as error:
        return str(error)
    raise AssertionError("a guarded function can never be called")


def _in_package(package: str, problems: list[Problem]) -> list[Any]:
    """Declared functions and classes of a package and all its modules."""
    root = _imported(package, problems)
    if root is None:
        return []
    modules = [root]
    for name in _module_names(root):
        if not name.endswith(".__main__"):
            module = _imported(name, problems)
            modules += [module] if module is not None else []
    return [job for module in modules for job in _declared_in(module)]


def _module_names(root: ModuleType) -> list[str]:
    """All modules below a package. It imports the packages among them; what cannot be imported is told once, later."""
    walk = pkgutil.walk_packages(getattr(root, "__path__", []), f"{root.__name__}.", onerror=lambda _name: None)
    return [info.name for info in walk]


def _imported(name: str, problems: list[Problem]) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary around user code: told with all problems
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        problems.append(Problem("packages", f"the module {name!r} cannot be imported: {said}", name))
        return None


def _declared_in(module: ModuleType) -> Iterator[Any]:
    """What a module itself declares, not what it imports. Abstract classes are there to be derived from."""
    for value in list(vars(module).values()):
        home = getattr(value.fn if isinstance(value, Guarded) else value, "__module__", None)
        if home != module.__name__:
            continue
        if (
            isinstance(value, Guarded)
            or (inspect.isfunction(value) and _is_declared(value))
            or (isinstance(value, type) and not inspect.isabstract(value) and _declares(value))
        ):
            yield value


def _declares(cls: type[Any]) -> bool:
    if marked(cls, ProcessMark) is not None:
        return True
    try:
        return any(_methods(cls))
    except ConfigError:
        return True  # what is wrong with it is told with all other problems


def with_extra(registry: Registry, extra: Registry) -> Registry:
    """Both together: the application's own and the built-in ones, of which the application may have its own."""
    handlers = {(entry.queue, entry.name) for entry in registry.handlers}
    schedules = {entry.name for entry in registry.schedules}
    return replace(
        registry,
        handlers=registry.handlers + [each for each in extra.handlers if (each.queue, each.name) not in handlers],
        schedules=registry.schedules + [each for each in extra.schedules if each.name not in schedules],
        classes=registry.classes + extra.classes,
        queues=registry.queues.with_more(extra.queues),
    )
