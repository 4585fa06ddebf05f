"""`OutboxModule`: the relay that moves jobs from the application's own database into the store, and its health."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypedDict, Unpack

from dishka import Provider, Scope

from workfleet.app.client import Session
from workfleet.bus import Bus
from workfleet.errors import ConfigError, Problem
from workfleet.health.indication import Fact, Indication
from workfleet.health.service import Health
from workfleet.model.durations import DurationLike
from workfleet.outbox.relay import Relay
from workfleet.outbox.source import Source
from workfleet.ports.clock import Clock
from workfleet.ports.stores import Store
from workfleet.settings.core import Settings
from workfleet.settings.outbox import OutboxSettings, is_sqlite
from workfleet.settings.store import sqlite_path

from .builtin import Factory
from .module import Module

_SETTING = "WORKER_OUTBOX__DATABASE"


class OutboxOptions(TypedDict, total=False):
    """Where the outbox is, and how it is moved."""

    database: str
    poll: DurationLike
    batch: int


def OutboxModule(*, factory: Factory | None = None, **options: Unpack[OutboxOptions]) -> Module:
    """Move what `Outbox` and `SyncOutbox` wrote: `OutboxModule(database="postgresql://…")`, or
    `"sqlite:////var/lib/shop/app.db"`, which is never the store's own file.

    Every worker process runs a relay. A database that is down is told once and tried again; it does not make the
    process unready, and the health indicator `outbox` shows it."""
    if factory is not None and options:
        raise TypeError("the outbox module: give options or a factory, not both")
    module = Module(
        "outbox",
        providers=[_RelayProvider()],
        services=[Relay],
        given={"outbox": dict(options)} if options else None,
        factories={"outbox": factory} if factory else None,
    )
    module.on_init(_watch)
    return module


def _watch(health: Health, relay: Relay) -> None:
    health.add(OutboxIndicator(relay))


class OutboxIndicator:
    """Whether rows are moved. It asks nobody: the relay knows."""

    name = "outbox"
    critical = False

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    async def check(self) -> Indication:
        relay, left = self._relay, self._relay.leftovers
        others = sum(left.others.values())
        facts: dict[str, Fact] = {
            "moved": relay.total,
            "refused": left.refused,
            "newer": left.newer,
            "of_other_apps": others,
        }
        if relay.trouble is not None:
            return Indication("unhealthy", facts, relay.trouble)
        if left.refused:
            return Indication("degraded", facts, f"{left.refused} rows cannot be read: see their column error")
        if left.newer:
            return Indication("degraded", facts, f"{left.newer} rows wait for workers of a newer version")
        if left.others:
            names = ", ".join(sorted(left.others))
            return Indication("degraded", facts, f"{others} rows are of apps whose workers do not move them: {names}")
        return Indication("healthy", facts)


class _RelayProvider(Provider):
    def __init__(self) -> None:
        super().__init__(scope=Scope.APP)
        self.provide(self.relay)

    async def relay(
        self, settings: OutboxSettings, core: Settings, session: Session, store: Store, clock: Clock, bus: Bus
    ) -> AsyncIterator[Relay]:
        relay = Relay(
            source_of(settings, session.app, store.url, clock),
            store.jobs,
            default_queue=core.default_queue,
            poll_ms=settings.poll.ms,
            batch=settings.batch,
            clock=clock,
            publish=bus.publish,
            enabled=core.queue_enabled,
        )
        yield relay
        await relay.source.close()


def source_of(settings: OutboxSettings, app: str, store: str, clock: Clock) -> Source:
    """The outbox that these settings name. Raises `ConfigError` where they name none, or a wrong one."""
    if settings.database is None:
        raise ConfigError(Problem(_SETTING, "OutboxModule needs to know which database of the application it is"))
    url = settings.database.get_secret_value()
    if is_sqlite(url):
        from workfleet.outbox.sqlite import SqliteSource

        path = sqlite_path(url)
        _check_not_the_stores(path, store)
        return SqliteSource(path, app, clock)
    from workfleet.outbox.postgres import PostgresSource

    return PostgresSource(url, app)


def _check_not_the_stores(path: Path, store: str) -> None:
    """A second SQLite library on the store's file, in a process that holds it, loses what others commit there."""
    if not is_sqlite(store):
        return
    own = sqlite_path(store)
    same = os.path.samefile(path, own) if path.exists() and own.exists() else path.resolve() == own.resolve()
    if same:
        reason = (
            "that is the store's own file, which no other library may open: the outbox belongs into the database "
            "that the application itself writes to"
        )
        raise ConfigError(Problem(_SETTING, reason, f"sqlite:///{path}"))
