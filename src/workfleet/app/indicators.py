"""What else a worker looks at for its health: disks, Redis clients, the database, queues, schedules, pools, and what
the application's own functions say."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from dishka import AsyncContainer

from workfleet.errors import ConfigError, NotFound, Problem, UsageError
from workfleet.health.database import DatabaseIndicator, ask_postgres, has_postgres, look_at_file
from workfleet.health.disk import DiskIndicator
from workfleet.health.indication import Indication, Indicator
from workfleet.health.pools import PoolsIndicator
from workfleet.health.redis import Ping, RedisIndicator
from workfleet.health.service import Health
from workfleet.health.work import QueuesIndicator, SchedulesIndicator
from workfleet.model.durations import format_duration
from workfleet.model.fleet import PoolReport
from workfleet.modules.module import DeclaredIndicator, Module
from workfleet.modules.redis import RedisClients, client_url
from workfleet.payloads.hints import read_hints
from workfleet.settings.core import DatabaseSettings
from workfleet.settings.health import HealthSettings
from workfleet.settings.metrics import database_url
from workfleet.settings.sections import MetricsSettings
from workfleet.settings.store import sqlite_path, store_scheme

from .builtins import Basis
from .client import Session
from .composition import Composition
from .fleet_look import FleetLook
from .graph import check_parameters, check_providers, provided_types, split_hint
from .metrics import metrics_place
from .queue_counts import QueueCounts
from .registry import Code
from .status import default_status_file
from .threads import HandlerThreads

_SHARE = 0.8
"""Of an indicator's time, for what it asks of others: it must still be able to say who did not answer."""


async def add_indicators(
    health: Health,
    basis: Basis,
    container: AsyncContainer,
    threads: HandlerThreads,
    pools: Callable[[], Iterable[PoolReport]],
) -> None:
    """Let the health of a worker look at all that its settings want. Raises `ConfigError` for what cannot be."""
    settings = await container.get(HealthSettings)
    found: list[Indicator] = []
    if settings.pools:
        found.append(PoolsIndicator(pools, critical="pools" in settings.critical))
    if settings.disk:
        found.append(_disk(settings, basis, await container.get(MetricsSettings), threads))
    if settings.redis:
        found += _redis(settings, basis, container)
    if settings.database:
        found += _database(settings, basis, threads)
    found += _work(settings, basis, await container.get(Session), await container.get(QueueCounts))
    for indicator in found:
        health.add(indicator)
    _add_declared(health, basis.composition.modules, container, threads)


def _disk(settings: HealthSettings, basis: Basis, metrics: MetricsSettings, threads: HandlerThreads) -> Indicator:
    limits = settings.thresholds
    return DiskIndicator(
        folders_of(basis, metrics),
        threads.run,
        degraded_from=limits.disk_degraded,
        unhealthy_from=limits.disk_unhealthy,
        enough=limits.disk_enough,
        critical="disk" in settings.critical,
    )


def folders_of(basis: Basis, metrics: MetricsSettings) -> list[Path]:
    """Where this worker and its supervisor write: the store's file, the status file, the metrics."""
    composition = basis.composition
    loaded, app, url = composition.loaded, composition.app.name, composition.store_url
    files = [loaded.core.status_file or default_status_file(loaded.project, app), metrics.textfile]
    if store_scheme(url) == "sqlite":
        files.append(sqlite_path(url))
    if metrics.collection.enabled:
        files.append(metrics_place(loaded, metrics, app).path)
    return [file.absolute().parent for file in files if file is not None]


def _redis(settings: HealthSettings, basis: Basis, container: AsyncContainer) -> list[Indicator]:
    """Of the clients of `RedisModule`; none without it."""
    if not _has_redis(basis.composition.modules):
        return []
    check_redis_clients(settings, basis.composition)

    async def pings() -> Mapping[str, Ping]:
        clients = await container.get(RedisClients)
        return {name: clients.get(name).ping for name in settings.redis_clients or clients.expected}

    limits = settings.thresholds
    return [
        RedisIndicator(
            pings,
            basis.clock,
            within_ms=settings.timeout.ms * _SHARE,
            degraded_from_ms=limits.redis_degraded.ms,
            unhealthy_from_ms=limits.redis_unhealthy.ms,
            critical="redis" in settings.critical,
        )
    ]


def check_names(settings: HealthSettings, composition: Composition) -> list[Problem]:
    """Health indicators of the application that have the name of another one, of its own or of a worker's."""
    usual = {
        "store": settings.store,
        "event-loop": settings.event_loop,
        "memory": settings.memory,
        "pools": settings.pools,
        "disk": settings.disk,
        "redis": settings.redis and _has_redis(composition.modules),
        "database": settings.database and database_check(composition.core.db, HandlerThreads()) is not None,
        "queues": settings.queues,
        "schedules": settings.schedules,
    }
    problems, names = list[Problem](), {name for name, wanted in usual.items() if wanted}
    for declared in [declared for module in composition.modules for declared in module.indicators]:
        if declared.name in names:
            problems.append(Problem(declared.where, f"there is a health indicator named {declared.name!r} already"))
        names.add(declared.name)
    return problems


def check_redis_clients(settings: HealthSettings, composition: Composition) -> None:
    """Raises `ConfigError` for clients that are to be asked, and that `RedisModule` has not."""
    modules = composition.modules
    if not settings.redis or not _has_redis(modules):
        return
    problems = list[Problem]()
    for name in settings.redis_clients or ():
        try:
            client_url(name, modules, composition.core)
        except NotFound as error:
            problems.append(Problem("WORKER_HEALTH__REDIS_CLIENTS", str(error), name))
    if problems:
        raise ConfigError(problems)


def _has_redis(modules: Iterable[Module]) -> bool:
    providers = [provider for module in modules for provider in module.providers]
    return not check_providers(providers) and RedisClients in provided_types(providers)


def _database(settings: HealthSettings, basis: Basis, threads: HandlerThreads) -> list[Indicator]:
    """Of the database that DB_* name, where there is a way to ask it."""
    ask = database_check(basis.composition.core.db, threads)
    if ask is None:
        return []
    limits = settings.thresholds
    return [
        DatabaseIndicator(
            ask,
            basis.clock,
            degraded_from_ms=limits.database_degraded.ms,
            unhealthy_from_ms=limits.database_unhealthy.ms,
            critical="database" in settings.critical,
        )
    ]


def database_check(db: DatabaseSettings, threads: HandlerThreads) -> Callable[[], Awaitable[None]] | None:
    """How that database is asked; None: none is named, or one of a kind for which there is no driver."""
    url = database_url(db)
    if url is not None:
        return partial(ask_postgres, url) if has_postgres() else None
    if db.type not in ("sqlite", "better-sqlite3") or db.name is None or db.name == ":memory:":
        return None
    path = Path(db.name).absolute()

    async def look() -> None:
        await threads.run(look_at_file, path)

    return look


def _work(settings: HealthSettings, basis: Basis, session: Session, counts: QueueCounts) -> list[Indicator]:
    look = FleetLook(
        session.store,
        counts,
        basis.clock,
        interval_ms=settings.store_interval.ms,
        within_ms=settings.timeout.ms * _SHARE,
    )
    limits, found = settings.thresholds, list[Indicator]()
    if settings.queues:
        degraded, unhealthy = limits.queues_degraded, limits.queues_unhealthy
        usual = (None if degraded is None else degraded.ms, None if unhealthy is None else unhealthy.ms)
        critical = "queues" in settings.critical
        found.append(QueuesIndicator(look.queues, usual=usual, own=settings.own_ages, critical=critical))
    if settings.schedules:
        ages = (limits.schedules_degraded.ms, limits.schedules_unhealthy.ms)
        found.append(SchedulesIndicator(look.schedules, ages=ages, critical="schedules" in settings.critical))
    return found


class OwnIndicator:
    """What a function of the application says: a coroutine function in the loop, another one in a thread, each with its
    parameters injected."""

    def __init__(self, declared: DeclaredIndicator, container: AsyncContainer, threads: HandlerThreads) -> None:
        self.name, self.critical = declared.name, declared.critical
        self._fn, self._container, self._threads = declared.fn, container, threads
        injected = read_hints(declared.fn, method=False).injected
        self._injected = {name: split_hint(hint) for name, hint in injected.items()}

    async def check(self) -> Indication:
        arguments: dict[str, Any] = {}
        async with self._container() as scope:
            for name, (kind, component) in self._injected.items():
                arguments[name] = await scope.get(kind, component)
            if inspect.iscoroutinefunction(self._fn):
                said = await self._fn(**arguments)
            else:
                said = await self._threads.run(self._fn, **arguments)
        if said is None:
            return Indication("healthy")
        if not isinstance(said, Indication):
            raise TypeError(f"{self._fn.__name__}() returned {said!r}, not an Indication or None")
        return said


def _add_declared(
    health: Health, modules: Iterable[Module], container: AsyncContainer, threads: HandlerThreads
) -> None:
    problems: list[Problem] = []
    for declared in [declared for module in modules for declared in module.indicators]:
        try:
            indicator = OwnIndicator(declared, container, threads)
            timeout = None if declared.timeout_ms is None else format_duration(declared.timeout_ms)
            health.add(indicator, timeout=timeout)
        except UsageError as error:
            problems.append(Problem(declared.where, str(error)))
    if problems:
        raise ConfigError(problems)


def check_indicators(modules: Iterable[Module], container: AsyncContainer) -> list[Problem]:
    """What is wrong with the parameters of health indicators."""
    problems: list[Problem] = []
    for declared in [declared for module in modules for declared in module.indicators]:
        try:
            hints = read_hints(declared.fn, method=False)
        except ConfigError as error:
            problems += error.problems
            continue
        if hints.job_parameter is not None:
            problems.append(Problem(declared.where, "a health indicator has no job"))
        problems += check_parameters(container, Code(declared.fn, None, declared.fn.__name__), hints.injected)
    return problems
