"""The injection graph: built from what modules provide, checked as a whole before anything starts.

Scope APP lives as long as the process, scope REQUEST as long as one run of a job. What is wrong (missing provider,
cycle, scope leak) is a `ConfigError` that names the path."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from dishka import AsyncContainer, FromComponent, Provider, Scope, make_async_container
from dishka.entities.key import DependencyKey, hint_to_dependency_key
from dishka.exception_base import DishkaError
from dishka.exceptions import CycleDependenciesError, NoFactoryError
from dishka.provider import BaseProvider
from dishka.registry import Registry

from workfleet.errors import Problem
from workfleet.model.jobtypes import JobContext

from .registry import Code

POOLS = "pools"
"""The component in which `Pool[W]` is found: a pool's proxy stands where the class itself would."""


class _PoolAlias:
    """`Pool[ImageWorker]` at run time: the worker class, to be found among the pools."""

    def __class_getitem__(cls, worker: type[Any]) -> Any:
        return Annotated[worker, FromComponent(POOLS)]


Pool = _PoolAlias


def build_graph(
    providers: Sequence[Provider], values: Mapping[Any, Any], classes: Iterable[type[Any]], problems: list[Problem]
) -> AsyncContainer | None:
    """A container of the providers, ready-made values by type, and job classes. What is wrong is added to `problems`;
    then it is of no use but to ask what it has, or None."""
    own = Provider(scope=Scope.APP)
    for kind in values:
        own.from_context(provides=kind, scope=Scope.APP)
    own.from_context(provides=JobContext, scope=Scope.REQUEST)
    provided = provided_types(providers)
    for cls in classes:
        if cls not in provided:
            try:
                own.provide(cls, scope=Scope.APP)
            except (DishkaError, NameError, TypeError) as error:
                problems.append(Problem(_named(cls), f"its constructor cannot be injected: {error}"))
    try:
        return make_async_container(own, *providers, context=dict(values))
    except (DishkaError, NameError) as error:
        problems.append(graph_problem(error))
    try:
        return make_async_container(own, *providers, context=dict(values), skip_validation=True)
    except (DishkaError, NameError):
        return None


def check_providers(providers: Sequence[object]) -> list[Problem]:
    """What was listed as a provider and is none, such as the class instead of an object."""
    problems = []
    for provider in providers:
        if not isinstance(provider, BaseProvider):
            advice = (
                "list an object: `providers=[MailProvider()]`" if isinstance(provider, type) else "it is no provider"
            )
            problems.append(Problem("providers", f"{_named(provider)}: {advice}"))
    return problems


def provided_types(providers: Sequence[Provider]) -> set[Any]:
    """The types that these providers provide, be it under another name of something else."""
    made = {factory.provides.type_hint for provider in providers for factory in provider.factories}
    return made | {alias.provides.type_hint for provider in providers for alias in provider.aliases}


def graph_problem(error: Exception) -> Problem:
    """A fault of the graph in words, with the path that leads to it."""
    if isinstance(error, CycleDependenciesError):
        names = [_named(factory.provides.type_hint) for factory in error.path]
        return Problem("injection", f"these need each other: {' -> '.join([*names, names[0]])}")
    if isinstance(error, NoFactoryError):
        path = [_named(factory.provides.type_hint) for factory in error.path]
        wanted = _named(error.requested.type_hint)
        trail = " -> ".join([*path, wanted])
        if any(factory.scope is Scope.REQUEST for factory in error.suggest_other_scopes):
            leak = f"{wanted} lives for one job, {path[-1] if path else 'this'} as long as the process"
            return Problem("injection", f"{trail}: {leak}: take it as a parameter of the method")
        if error.requested.component == POOLS:
            return Problem("injection", f"{trail}: no module lists the @process class {wanted} under its jobs")
        return Problem(
            "injection", f"{trail}: nothing provides {wanted}: add a provider to a module, or fix the type hint"
        )
    return Problem("injection", str(error))


def check_parameters(container: AsyncContainer, code: Code, injected: Mapping[str, Any]) -> list[Problem]:
    """What of a method's parameters nothing provides."""
    problems = []
    for name, hint in injected.items():
        kind, component = split_hint(hint)
        if not _has_factory(container, kind, component):
            where = f"{code.where}({name})"
            if component == POOLS:
                message = f"no module lists the @process class {_named(kind)} under its jobs"
            else:
                message = f"nothing provides {_named(kind)}: add a provider to a module, or fix the type hint"
            problems.append(Problem(where, message))
    return problems


def split_hint(hint: Any) -> tuple[Any, str]:
    """A parameter's type and component."""
    key = hint_to_dependency_key(hint)
    return key.type_hint, key.component or ""


def lives_for_one_job(container: AsyncContainer, hint: Any) -> bool:
    """Whether what provides a type does so for each run anew."""
    kind, component = split_hint(hint)
    return container.registry.get_factory(DependencyKey(kind, component)) is None


def _has_factory(container: AsyncContainer, kind: Any, component: str) -> bool:
    registry: Registry | None = container.registry
    key = DependencyKey(kind, component)
    while registry is not None:
        if registry.get_factory(key) is not None:
            return True
        registry = registry.child_registry
    return False


async def close_graph(container: AsyncContainer) -> list[str]:
    """Close all resources in reverse order. One that fails does not keep the others open; returns what failed."""
    failed = []
    with contextlib.suppress(StopAsyncIteration):
        try:
            await container.close()
        except ExceptionGroup as group:
            failed = [repr(error) for error in group.exceptions]
    return failed


def _named(kind: Any) -> str:
    return getattr(kind, "__qualname__", None) or str(kind)
