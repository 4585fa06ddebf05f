"""Where metrics are kept, and the services that keep them."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from workfleet.errors import StoreUnavailable
from workfleet.events import Event, MetricsUnavailable
from workfleet.health.process import OwnProcess
from workfleet.observe.metrics.flusher import MetricsFlusher
from workfleet.observe.metrics.memory import MemoryMetricStore
from workfleet.observe.metrics.process import ProcessCollector
from workfleet.observe.metrics.pruner import MetricsPruner
from workfleet.observe.metrics.registry import MetricsRegistry
from workfleet.observe.metrics.sqlite import SqliteMetricStore, metrics_path
from workfleet.observe.metrics.store import MetricStore
from workfleet.ports.clock import Clock
from workfleet.settings.sections import MetricsSettings
from workfleet.supervision.service import Service

from .composition import Composition
from .policies import milliseconds


async def open_metric_store(
    composition: Composition, settings: MetricsSettings, publish: Callable[[Event], None]
) -> MetricStore:
    """The metric store of these settings: a file beside the job store, or memory. A job store in memory has no file
    beside it, so its metrics are in memory too."""
    store = urlsplit(composition.store_url)
    name = settings.app_name or composition.app.name
    if settings.storage == "memory" or store.scheme != "sqlite":
        return MemoryMetricStore()
    path = metrics_path(Path(unquote(store.path)))
    try:
        return await SqliteMetricStore.open(path, name)
    except StoreUnavailable as error:
        # Metrics are not worth a single job: they are kept in memory until somebody has looked at the file.
        publish(MetricsUnavailable(path=str(path), reason=error.reason))
        return MemoryMetricStore()


def metric_services(
    settings: MetricsSettings,
    registry: MetricsRegistry,
    store: MetricStore,
    *,
    index: int,
    clock: Clock,
    publish: Callable[[Event], None],
) -> list[Service]:
    """The loops that collect, write and prune."""
    services: list[Service] = [
        MetricsFlusher(
            registry,
            store,
            clock,
            publish,
            interval_ms=milliseconds(settings.flush_interval),
            batch_size=settings.batch_size,
        ),
        MetricsPruner(
            store,
            clock,
            publish,
            max_age_ms=milliseconds(settings.retention),
            interval_ms=milliseconds(settings.cleanup_interval),
        ),
    ]
    if settings.collection.enabled:
        # Not the worker's id, which is another one after every restart: its place lasts, and so do its series.
        labels = {"host": socket.gethostname(), "worker": str(index)}
        services.append(
            ProcessCollector(
                registry,
                OwnProcess().read,
                clock,
                labels=labels,
                interval_ms=milliseconds(settings.collection.interval),
            )
        )
    return services
