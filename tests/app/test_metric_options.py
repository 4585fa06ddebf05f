"""What is measured, by whom, and where it is kept, as the settings say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.app.test_seed_rooms import loops
from tests.app.working import Worker
from workfleet import App, Job, Metrics, MetricsModule, metric
from workfleet.app.metrics import MetricsPlace, metrics_place, open_metric_store
from workfleet.errors import ConfigError
from workfleet.events import Event, MetricsUnavailable
from workfleet.observe.metrics.memory import MemoryMetricStore
from workfleet.observe.metrics.postgres import PostgresMetricStore
from workfleet.observe.metrics.sqlite import SqliteMetricStore
from workfleet.settings.load import load
from workfleet.settings.sections import MetricsSettings
from workfleet.testing import Fleet

pytestmark = pytest.mark.usefixtures("project")


def test_what_is_collected_is_chosen_one_by_one_and_shared_by_the_workers_of_a_machine() -> None:
    keeping = {"MetricsFlusher", "MetricsPruner"}
    assert set(loops()) == keeping | {"ProcessCollector", "SystemCollector", "FleetCollector"}
    assert set(loops(index=1)) == keeping | {"ProcessCollector"}
    off = {"process": False, "system": False, "queues": False, "schedules": False, "locks": False}
    assert set(loops(collection=off)) == keeping
    for switch, collector in (
        ("process", "ProcessCollector"), ("system", "SystemCollector"), ("queues", "FleetCollector"),
        ("schedules", "FleetCollector"), ("locks", "FleetCollector"),
    ):  # fmt: skip
        assert set(loops(collection={**off, switch: True})) == keeping | {collector}


def test_the_text_file_is_written_by_whoever_adds_up_the_workers(tmp_path: Path) -> None:
    path = tmp_path / "metrics.prom"
    alone, led = loops(textfile=str(path)), loops(textfile=str(path), tell=lambda samples: None)
    assert alone["Textfile"]["_path"] == path
    assert "Teller" not in alone
    assert "Teller" in led
    assert "Textfile" not in led


async def test_what_the_application_measures_can_be_left_out() -> None:
    for custom, names in ((True, {"made_total", "resize_calls_total", "resize_duration_seconds"}), (False, set())):
        app = App("shop", modules=[MetricsModule(storage="memory", collection={"custom": custom})])

        @app.handler("resize")
        @metric("resize")
        async def resize(job: Job[None], metrics: Metrics) -> None:
            metrics.counter("made_total")

        async with Fleet(app) as fleet:
            ref = await fleet.enqueue(resize.job())
            await fleet.run_until_idle()
            await ref.result()
            samples = (await fleet.get(Metrics)).snapshot()
        found = {each.name for each in samples}
        assert {name for name in found if not name.startswith("workfleet_")} == names
        assert "workfleet_jobs_total" in found


async def test_nothing_at_all_is_measured_when_collection_is_off(project: Path) -> None:
    app = App("shop", modules=[MetricsModule(collection={"enabled": False})])
    async with Worker(app, store=f"sqlite:///{project}/shop.db") as worker:
        (await worker.get(Metrics)).counter("made_total")
        assert (await worker.get(Metrics)).snapshot() == []


# Where it is kept


def place(folder: Path, **environ: str) -> MetricsPlace:
    loaded = load(environ={"WORKER_HEARTBEAT_ENABLED": "false", **environ}, cwd=folder)
    return metrics_place(loaded, loaded.section("metrics", MetricsSettings), "shop")


def test_a_file_beside_the_store_s_or_in_the_project(project: Path) -> None:
    assert place(project) == MetricsPlace("shop", path=project / ".workfleet" / "shop.db.metrics.db")
    assert place(project, WORKER_STORE="sqlite:///srv/a%20b.db").path == Path("/srv/a b.db.metrics.db")
    on_redis = place(project, WORKER_STORE="redis://localhost:6379/0")
    assert on_redis == MetricsPlace("shop", path=project / ".workfleet" / "shop.metrics.db")
    assert place(project, WORKER_STORE="memory://") == MetricsPlace("shop")
    assert place(project, WORKER_METRICS__STORAGE="memory", WORKER_METRICS__APP_NAME="front") == MetricsPlace("front")


def test_a_database_of_its_own_or_the_application_s(project: Path) -> None:
    named = place(project, WORKER_METRICS__STORAGE="postgres", WORKER_METRICS__URL="postgresql://u:p@host/m")
    assert named == MetricsPlace("shop", url="postgresql://u:p@host/m")
    database = {
        "DB_TYPE": "postgres", "DB_HOST": "db", "DB_PORT": "5433", "DB_NAME": "shop", "DB_USER": "me", "DB_PASS": "a/b",
    }  # fmt: skip
    assert place(project, WORKER_METRICS__STORAGE="postgres", **database).url == "postgresql://me:a%2Fb@db:5433/shop"


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"WORKER_METRICS__STORAGE": "postgres"}, "WORKER_METRICS__STORAGE = postgres: no database is named"),
        (
            {"WORKER_METRICS__STORAGE": "postgres", "DB_TYPE": "mysql", "DB_HOST": "db"},
            "WORKER_METRICS__STORAGE = postgres: no database is named",
        ),
        (
            {"WORKER_METRICS__URL": "postgresql://u:p@host/m"},
            r"WORKER_METRICS__URL: metrics are kept elsewhere \(sqlite\)",
        ),
        ({"WORKER_METRICS__URL": "mysql://u:p@host/m"}, "WORKER_METRICS__URL"),
        ({"WORKER_METRICS__RETENTION": "14"}, "WORKER_METRICS__RETENTION = 14"),
        ({"WORKER_METRICS__RETENTION": "2 weeks-ish"}, "WORKER_METRICS__RETENTION"),
    ],
)
def test_what_contradicts_itself_or_is_a_typo_stops_the_start(
    project: Path, environ: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        place(project, **environ)
    assert "u:p" not in str(caught.value)


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        (lambda folder: MetricsPlace("shop", path=folder / "deep" / "m.db"), SqliteMetricStore),
        (lambda folder: MetricsPlace("shop", url="postgresql://nobody@127.0.0.1:1/none"), PostgresMetricStore),
        (lambda folder: MetricsPlace("shop"), MemoryMetricStore),
    ],
)
async def test_the_place_is_opened(tmp_path: Path, where: Callable[[Path], MetricsPlace], kind: type[Any]) -> None:
    store = await open_metric_store(where(tmp_path), lambda event: None)
    assert isinstance(store, kind)  # a server that is down delays metrics, it does not stop a worker
    await store.close()


async def test_a_damaged_file_is_told_and_metrics_stay_in_memory(tmp_path: Path) -> None:
    told: list[Event] = []
    damaged = tmp_path / "shop.db.metrics.db"
    damaged.write_bytes(b"not a database " * 1_000)
    store = await open_metric_store(MetricsPlace("shop", path=damaged), told.append)
    assert isinstance(store, MemoryMetricStore)
    await store.close()
    (event,) = told
    assert isinstance(event, MetricsUnavailable)
    assert event.path == str(damaged)
