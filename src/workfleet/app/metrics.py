"""Where metrics are kept, and the services that measure and keep them."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from workfleet.errors import ConfigError, Problem
from workfleet.events import Event
from workfleet.health.cgroup import read_cgroup_memory
from workfleet.health.indication import HealthReport
from workfleet.health.process import OwnProcess
from workfleet.observe.metrics.fleet import FleetCollector
from workfleet.observe.metrics.flusher import MetricsFlusher
from workfleet.observe.metrics.handed import Handed, HandedRows
from workfleet.observe.metrics.health import HealthCollector
from workfleet.observe.metrics.memory import MemoryMetricStore
from workfleet.observe.metrics.model import UNCHANGED_MS
from workfleet.observe.metrics.process import ProcessCollector
from workfleet.observe.metrics.pruner import MetricsPruner
from workfleet.observe.metrics.registry import MetricsRegistry
from workfleet.observe.metrics.sqlite import SqliteMetricStore, metrics_path
from workfleet.observe.metrics.store import MetricStore
from workfleet.observe.metrics.system import SystemCollector
from workfleet.observe.metrics.textfile import Textfile
from workfleet.pools.cpus import usable_cpus
from workfleet.ports.clock import Clock
from workfleet.ports.metrics import FleetReader, Sample
from workfleet.settings.loaded import Loaded
from workfleet.settings.metrics import database_url
from workfleet.settings.sections import MetricsSettings
from workfleet.settings.store import sqlite_path, store_scheme
from workfleet.stores.open import MEMORY
from workfleet.supervision.machine import Limits, MachineReader
from workfleet.supervision.service import Service

from .policies import milliseconds

Tell: TypeAlias = Callable[[Sequence[Sample]], None]
LastReport: TypeAlias = Callable[[], HealthReport | None]
"""What health said last; None: nobody has asked yet."""


@dataclass(frozen=True)
class MetricsPlace:
    """Where an application's metrics are: a file of this machine, or a PostgreSQL database; neither: in memory."""

    app: str
    path: Path | None = None
    url: str | None = None


def metrics_place(loaded: Loaded, settings: MetricsSettings, app: str) -> MetricsPlace:
    """The place that settings name. Where the job store is a server, the file is `.workfleet/<app>.metrics.db` in the
    project; where it is in memory, so are the metrics. Raises `ConfigError` where no database is named, but wanted."""
    name, store = settings.app_name or app, loaded.store_url(app)
    if settings.url is not None and settings.storage != "postgres":
        reason = (
            f"metrics are kept elsewhere ({settings.storage}): set WORKER_METRICS__STORAGE=postgres, or leave it out"
        )
        raise ConfigError(Problem("WORKER_METRICS__URL", reason))
    if settings.storage == "postgres":
        url = database_url(loaded.core.db) if settings.url is None else settings.url.get_secret_value()
        if url is None:
            reason = "no database is named: set WORKER_METRICS__URL, or DB_HOST and DB_NAME (with DB_TYPE=postgres)"
            raise ConfigError(Problem("WORKER_METRICS__STORAGE", reason, "postgres"))
        return MetricsPlace(name, url=url)
    if settings.storage == "memory" or store == MEMORY:
        return MetricsPlace(name)
    if store_scheme(store) == "sqlite":
        return MetricsPlace(name, path=metrics_path(sqlite_path(store)))
    file = re.sub(r"[^\w.-]", "_", app).lstrip(".") or "app"
    return MetricsPlace(name, path=loaded.project / ".workfleet" / f"{file}.metrics.db")


def metric_store_at(place: MetricsPlace, registry: MetricsRegistry) -> MetricStore:
    """The metric store of a worker, which is opened when it is first used: no job waits for it. What memory has no
    room for is counted in the registry. Raises `ConfigError` for a database that cannot be understood."""
    if place.url is not None:
        from workfleet.observe.metrics.postgres import PostgresMetricStore

        return PostgresMetricStore(place.url, place.app)
    if place.path is None:
        return MemoryMetricStore(dropped=lambda count: registry.drop("memory_full", count))
    return SqliteMetricStore(place.path, place.app)


def metric_services(
    settings: MetricsSettings,
    registry: MetricsRegistry,
    store: MetricStore,
    fleet: FleetReader,
    *,
    index: int,
    clock: Clock,
    publish: Callable[[Event], None],
    health: LastReport,
    tell: Tell | None = None,
    handed: Handed | None = None,
) -> list[Service]:
    """The loops that measure, write and prune; none where nothing is measured. The first worker of a machine (`index`
    0) measures what is not its own. `tell` hears what was measured, and then has the text file to itself. What is
    `handed` is written, too."""
    if not settings.collection.enabled:
        return []
    interval_ms = milliseconds(settings.collection.interval)
    services: list[Service] = [
        MetricsFlusher(
            registry,
            store,
            clock,
            publish,
            interval_ms=milliseconds(settings.flush_interval),
            batch_size=settings.batch_size,
            # What is deleted sooner must be written sooner, too.
            again_ms=min(UNCHANGED_MS, milliseconds(settings.retention) // 2),
        ),
        MetricsPruner(
            store,
            clock,
            publish,
            max_age_ms=milliseconds(settings.retention),
            interval_ms=milliseconds(settings.cleanup_interval),
        ),
        *_collectors(settings, registry, fleet, health, index=index, clock=clock, publish=publish),
    ]
    if handed is not None:
        services.append(HandedRows(handed, store, clock, again_ms=milliseconds(settings.flush_interval)))
    if tell is not None:
        services.append(Teller(registry, tell, clock, interval_ms=interval_ms))
    elif settings.textfile is not None:
        services.append(Textfile(settings.textfile, registry.snapshot, clock, publish, interval_ms=interval_ms))
    return services


def _collectors(
    settings: MetricsSettings,
    registry: MetricsRegistry,
    fleet: FleetReader,
    health: LastReport,
    *,
    index: int,
    clock: Clock,
    publish: Callable[[Event], None],
) -> list[Service]:
    wanted, host = settings.collection, socket.gethostname()
    interval_ms = milliseconds(wanted.interval)
    services: list[Service] = []
    if wanted.process:
        # Not the worker's id, which is another one after every restart: its place lasts, and so do its series.
        labels = {"host": host, "worker": str(index)}
        services += [
            ProcessCollector(registry, OwnProcess().read, clock, labels=labels, interval_ms=interval_ms),
            HealthCollector(registry, lambda: _statuses(health()), clock, labels=labels, interval_ms=interval_ms),
        ]
    if wanted.system and index == 0:
        machine = MachineReader(memory=_memory, cpus=usable_cpus, all_cpus=os.cpu_count())
        services.append(SystemCollector(registry, machine.read, clock, labels={"host": host}, interval_ms=interval_ms))
    if (wanted.queues or wanted.schedules or wanted.locks) and index == 0:
        every_ms = milliseconds(wanted.store_interval)
        services.append(FleetCollector(registry, fleet, clock, publish, interval_ms=every_ms))
    return services


def _statuses(report: HealthReport | None) -> dict[str, str]:
    return {} if report is None else {each.name: each.status for each in report.indicators}


def _memory() -> Limits | None:
    group = read_cgroup_memory()
    return None if group is None else (group.limit, group.used)


class Teller:
    """A Service: tells somebody at every interval, and once more at the end, what this process has measured."""

    name = "metrics report"

    def __init__(self, registry: MetricsRegistry, tell: Tell, clock: Clock, *, interval_ms: int) -> None:
        self._registry, self._tell, self._clock, self._interval_ms = registry, tell, clock, interval_ms

    async def serve(self) -> None:
        try:
            while True:
                await self._clock.sleep(self._interval_ms / 1000)
                self._tell(self._registry.snapshot())
        finally:
            self._tell(self._registry.snapshot())
