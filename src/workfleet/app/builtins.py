"""What every application can inject: the client, the queues, schedules, locks, pools, metrics, health, and settings."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from dishka import Provider, Scope

from workfleet.bus import Bus
from workfleet.health.lag import LoopLagSampler
from workfleet.health.service import Health
from workfleet.locks.locks import Locks
from workfleet.observe.metrics.registry import MetricsRegistry
from workfleet.observe.metrics.service import Metrics
from workfleet.observe.metrics.store import MetricStore
from workfleet.ports.clock import Clock
from workfleet.ports.stores import Store
from workfleet.queues.jobs import Jobs
from workfleet.queues.queues import Queues
from workfleet.schedules.schedules import Schedules
from workfleet.seednames import SchedulerQueueService, SchedulerService
from workfleet.settings.core import Settings
from workfleet.settings.health import HealthSettings
from workfleet.settings.sections import LockSettings, MetricsSettings
from workfleet.supervision.board import Board

from .client import Client, Session
from .composition import Composition
from .guarding import GuardMaker
from .health import StoreProbe, health_of
from .locking import LockPlace, check_factory, make_locks
from .metrics import metric_store_at, metrics_place
from .policies import milliseconds
from .queue_counts import QueueCounts

OpenStore = Callable[..., Awaitable[Store]]


@dataclass(frozen=True)
class Basis:
    """What a process of an application stands on."""

    composition: Composition
    clock: Clock
    bus: Bus
    worker: str
    open_store: OpenStore
    board: Board | None = None
    replaced: dict[type[Any], Any] | None = None
    """Objects that a test puts in the place of what is provided."""


class LazyStore:
    """The store, opened when it is first needed: a child process opens it only if its code asks for it."""

    def __init__(self, basis: Basis) -> None:
        self._basis = basis
        self._opening = asyncio.Lock()
        self._store: Store | None = None

    async def get(self) -> Store:
        """The open store. Raises `StoreUnavailable`."""
        async with self._opening:
            if self._store is None:
                basis, composition = self._basis, self._basis.composition
                self._store = await basis.open_store(
                    composition.store_url, app=composition.app.name, clock=basis.clock, create=True
                )
            return self._store

    async def close(self) -> None:
        """Close what was opened."""
        if self._store is not None:
            await self._store.close()


class BuiltIns(Provider):
    """Everything is made when it is first needed, and closed in reverse order."""

    def __init__(self, basis: Basis) -> None:
        super().__init__(scope=Scope.APP)
        self._basis = basis
        for make in (
            self.lazy_store, self.store, self.session, self.guard_maker, self.client, self.jobs, self.queues,
            self.schedules, self.lock_place, self.locks, self.metric_store, self.metrics, self.lag_sampler,
            self.store_probe, self.queue_counts, self.health,
            self.logger, self.scheduler_service, self.queue_service,
        ):  # fmt: skip
            self.provide(make)

    async def lazy_store(self) -> AsyncIterator[LazyStore]:
        lazy = LazyStore(self._basis)
        yield lazy
        await lazy.close()

    async def store(self, lazy: LazyStore) -> Store:
        return await lazy.get()

    def session(self, lazy: LazyStore) -> Session:
        basis, composition = self._basis, self._basis.composition
        return Session.of(
            lazy.get,
            composition.app.name,
            composition.loaded,
            clock=basis.clock,
            publish=basis.bus.publish,
            owner=basis.worker,
            queues=composition.registry.queues.by_name,
        )

    def guard_maker(
        self, locks: Locks, store: Store, registry: MetricsRegistry, settings: MetricsSettings, clock: Clock, bus: Bus
    ) -> GuardMaker:
        wanted = settings.collection
        metrics = registry if wanted.enabled and wanted.custom else MetricsRegistry(max_series=1)
        return GuardMaker(locks, store, metrics, clock, bus)

    def client(self, session: Session, locks: Locks) -> Client:
        return Client.attached(session, locks)

    def jobs(self, session: Session) -> Jobs:
        return Jobs(session.store, session.clock)

    def queues(self, session: Session) -> Queues:
        return Queues(session.store)

    def schedules(self, session: Session) -> Schedules:
        return session.schedules()

    async def lock_place(self, lazy: LazyStore) -> AsyncIterator[LockPlace]:
        basis, app = self._basis, self._basis.composition.app.name
        url = basis.composition.locks_url

        async def elsewhere() -> Store:
            assert url is not None
            return await basis.open_store(url, app=app, clock=basis.clock, create=True)

        place = LockPlace(lazy.get, None if url is None else elsewhere)
        yield place
        await place.close()

    async def locks(self, session: Session, place: LockPlace, settings: LockSettings) -> AsyncIterator[Locks]:
        check_factory(settings, self._basis.composition.loaded)
        locks = make_locks(session, place, settings, self._basis.board)
        yield locks
        await locks.close()

    async def metric_store(self, settings: MetricsSettings, registry: MetricsRegistry) -> AsyncIterator[MetricStore]:
        composition = self._basis.composition
        place = metrics_place(composition.loaded, settings, composition.app.name)
        store = metric_store_at(place, registry)
        yield store
        await store.close()

    def metrics(self, registry: MetricsRegistry, store: MetricStore, settings: MetricsSettings) -> Metrics:
        wanted = settings.collection
        return Metrics(registry, store, self._basis.clock, custom=wanted.enabled and wanted.custom)

    def lag_sampler(self) -> LoopLagSampler:
        return LoopLagSampler(self._basis.clock, interval_ms=250)

    def queue_counts(self, lazy: LazyStore) -> QueueCounts:
        return QueueCounts(lazy.get, self._basis.clock)

    def store_probe(self) -> StoreProbe:
        return StoreProbe(self._basis.clock, lease_ms=milliseconds(self._basis.composition.core.lease))

    async def health(
        self, settings: HealthSettings, session: Session, sampler: LoopLagSampler, probe: StoreProbe
    ) -> AsyncIterator[Health]:
        basis = self._basis
        health = health_of(basis.composition, settings, session, sampler, probe, basis.clock, basis.bus.publish)
        yield health
        await health.close()

    def logger(self) -> logging.Logger:
        return logging.getLogger(self._basis.composition.app.name)

    def scheduler_service(self, schedules: Schedules, client: Client) -> SchedulerService:
        return SchedulerService(schedules, client)

    def queue_service(self, client: Client) -> SchedulerQueueService:
        return SchedulerQueueService(client)


def ready_values(basis: Basis, registry: MetricsRegistry) -> dict[Any, Any]:
    """What is there before the graph is built: settings, clock, bus, registry."""
    loaded = basis.composition.loaded
    values: dict[Any, Any] = {Settings: loaded.core, Clock: basis.clock, Bus: basis.bus, MetricsRegistry: registry}
    for module in basis.composition.modules:
        if module.settings is not None:
            values[module.settings] = loaded.section(module.name)
    return values
