"""All that a start refuses in what an application declares, found at once and before anything of it runs: no store is
opened, and no provider, hook or constructor is called.

The start asks here first, and so does `workfleet config check`. What only the machine can tell (the store, a share of a
core) and what the factory of a module gives are seen later, by the start alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dishka import AsyncContainer, Provider

from workfleet.bus import Bus
from workfleet.clock import SystemClock
from workfleet.errors import ConfigError, Problem
from workfleet.observe.metrics.registry import MetricsRegistry
from workfleet.settings.health import HealthSettings
from workfleet.settings.pools import PoolsSettings
from workfleet.settings.sections import MetricsSettings, SchedulerSettings
from workfleet.stores.open import open_store

from .assemble import graph_of
from .at_start import check_releases
from .builtins import Basis
from .compile import read_code
from .composition import Composition
from .indicators import check_names, check_redis_clients
from .logs import log_problems
from .metrics import metrics_place
from .planned import Planned, definitions_of, listened, plan
from .pool_checks import DeclaredPools, named_problems, pool_name
from .pooling import Pooling
from .runtime_options import RuntimeOptions


def check(composition: Composition, locator: str) -> None:
    """Raises `ConfigError` with all that `workfleet run` would refuse in an application of this locator."""
    basis = Basis(composition, SystemClock(), Bus(), "check", open_store)
    options = RuntimeOptions(worker="check", locator=locator, processes=composition.core.processes)
    pooling = Pooling(basis, locator=locator, config={}, processes=options.processes)
    checked_graph(basis, MetricsRegistry(), pooling.providers(), options)


def checked_graph(
    basis: Basis, registry: MetricsRegistry, pools: Sequence[Provider], options: RuntimeOptions
) -> AsyncContainer:
    """The graph of an application that can start. Raises `ConfigError` with all that keeps it from it."""
    container, problems = graph_of(basis, registry, pools)
    problems = list(dict.fromkeys([*problems, *_declared(basis.composition, container, options)]))
    if container is None or problems:
        raise ConfigError(problems)
    return container


def _declared(composition: Composition, container: AsyncContainer | None, options: RuntimeOptions) -> list[Problem]:
    """What is wrong with what is declared; without a container nothing is said of injection."""
    loaded, marks = composition.loaded, dict(composition.registry.processes)
    scheduler = loaded.section("scheduler", SchedulerSettings)
    definitions, problems = definitions_of(composition, scheduler)
    settings, doubled = loaded.section("pools", PoolsSettings), options.pooling is not None
    if doubled:  # what this machine has of processors is no matter of a test
        settings = settings.model_copy(update={"size": 1})
    pools = DeclaredPools(
        marks,
        settings,
        container,
        processes=options.processes,
        locator=options.locator,
        doubled=doubled,
    )
    problems += pools.problems
    with _noting(problems):
        check_releases(composition, definitions)
    planned: Sequence[Planned] = ()
    with _noting(problems):
        plans = plan(composition, definitions, listened(composition, scheduler, options.queues))
        planned = plans.planned
        problems += plans.problems
    for each in planned:
        with _noting(problems):
            read_code(
                each.code,
                container,
                name=each.name,
                policy=each.policy,
                in_pool=each.pool is not None,
                on_timeout=each.on_timeout,
            )
        if each.pool is not None:
            importable = doubled or options.locator is not None
            name = pool_name(marks, each.pool)
            problems += named_problems(each.code, name, pools.options, importable=importable)
    return problems + _of_settings(composition, driven=options.driven)


def _of_settings(composition: Composition, *, driven: bool) -> list[Problem]:
    """What settings name that is not there. A factory may say otherwise."""
    loaded, problems = composition.loaded, list[Problem]()
    made = {section for module in composition.modules for section in module.factories}
    if "metrics" not in made and not driven:  # a test keeps none
        with _noting(problems):
            metrics_place(loaded, loaded.section("metrics", MetricsSettings), composition.app.name)
    if not driven:  # a test logs nowhere of its own
        problems += log_problems(loaded, composition.modules)
    if "health" not in made:
        health = loaded.section("health", HealthSettings)
        problems += check_names(health, composition)
        with _noting(problems):
            check_redis_clients(health, composition)
    return problems


@contextmanager
def _noting(problems: list[Problem]) -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        problems += error.problems
