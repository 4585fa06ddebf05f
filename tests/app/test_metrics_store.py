"""A metrics file that cannot be used costs metrics, never a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from workfleet.app.app import App
from workfleet.app.composition import compose
from workfleet.app.metrics import open_metric_store
from workfleet.events import Event, MetricsUnavailable
from workfleet.observe.metrics.memory import MemoryMetricStore
from workfleet.observe.metrics.sqlite import SqliteMetricStore
from workfleet.settings.sections import MetricsSettings


async def test_a_damaged_file_is_told_and_metrics_stay_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    composition = compose(App("shop", store=f"sqlite://{tmp_path}/shop.db"))
    told: list[Event] = []
    good = await open_metric_store(composition, MetricsSettings(), told.append)
    assert isinstance(good, SqliteMetricStore)
    await good.close()
    assert told == []
    damaged = tmp_path / "shop.db.metrics.db"
    damaged.write_bytes(b"not a database " * 1_000)
    store = await open_metric_store(composition, MetricsSettings(), told.append)
    assert isinstance(store, MemoryMetricStore)
    await store.close()
    (event,) = told
    assert isinstance(event, MetricsUnavailable)
    assert event.path == str(damaged)
