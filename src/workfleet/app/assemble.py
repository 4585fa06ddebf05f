"""Puts the graph together: built-ins, sections, the modules' providers, job classes and pools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dishka import AsyncContainer, Provider, Scope

from workfleet.errors import ConfigError, Problem
from workfleet.observe.metrics.registry import MetricsRegistry

from .builtins import Basis, BuiltIns, ready_values
from .graph import build_graph, check_providers, provided_types
from .hooks import check_hooks
from .indicators import check_indicators
from .listeners import check_listeners
from .sections import section_provider


def container_of(basis: Basis, registry: MetricsRegistry, pools: Sequence[Provider]) -> AsyncContainer:
    """The checked graph of an application. `pools` provides the pools' proxies. Raises `ConfigError`."""
    container, problems = graph_of(basis, registry, pools)
    if container is None or problems:
        raise ConfigError(problems)
    return container


def graph_of(
    basis: Basis, registry: MetricsRegistry, pools: Sequence[Provider]
) -> tuple[AsyncContainer | None, list[Problem]]:
    """The graph, and what is wrong with it: then it is of no use but to ask what it has, or None. Nothing in it is
    made."""
    composition = basis.composition
    problems = check_providers([provider for module in composition.modules for provider in module.providers])
    if problems:
        return None, problems
    providers: list[Provider] = [BuiltIns(basis), section_provider(composition), *pools]
    providers += [provider for module in composition.modules for provider in module.providers]
    values = ready_values(basis, registry)
    if basis.replaced:
        known = provided_types(providers) | set(values) | set(composition.registry.classes)
        problems += _check_replaced(basis.replaced, known)
        providers.append(_replacing(basis.replaced))
    container = build_graph(providers, values, composition.registry.classes, problems)
    if container is not None:
        for check in (check_hooks, check_listeners, check_indicators):
            problems += check(composition.modules, container)
    return container, problems


def _check_replaced(objects: dict[type[Any], Any], known: set[Any]) -> list[Problem]:
    """What nothing provides cannot be replaced: the test would go on with the real thing."""
    return [
        Problem(f"replace {kind.__qualname__}", "nothing provides this type, so no code would get the object")
        for kind in objects
        if kind not in known
    ]


def _replacing(objects: dict[type[Any], Any]) -> Provider:
    """Ready-made objects in the place of what is provided: the last provider of a type wins."""
    provider = Provider(scope=Scope.APP)
    for kind, value in objects.items():
        provider.provide(_constant(value), provides=kind)
    return provider


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value
