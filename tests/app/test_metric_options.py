"""What is measured, by whom, and where it is kept, as the settings say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.app.test_seed_rooms import loops
from tests.app.working import Worker, until
from tests.observe.manual_clock import ManualClock
from workfleet import App, Job, Metrics, MetricsModule, metric
from workfleet.app.metrics import MetricsPlace, metric_store_at, metrics_place
from workfleet.app.pool_metrics import pool_metrics
from workfleet.app.supervisor.measures import Measures
from workfleet.app.worker import _metrics_order
from workfleet.errors import ConfigError
from workfleet.events import MetricsUnavailable
from workfleet.observe.metrics.memory import MemoryMetricStore
from workfleet.observe.metrics.model import CounterPoint, MetricRow
from workfleet.observe.metrics.postgres import PostgresMetricStore
from workfleet.observe.metrics.registry import DROPPED, MetricsRegistry
from workfleet.observe.metrics.sqlite import SqliteMetricStore
from workfleet.settings.load import load
from workfleet.settings.sections import MetricsSettings
from workfleet.supervision.control import MetricsOrder
from workfleet.testing import Fleet, TestClock

pytestmark = pytest.mark.usefixtures("project")


def test_what_is_collected_is_chosen_one_by_one_and_shared_by_the_workers_of_a_machine() -> None:
    keeping = {"MetricsFlusher", "MetricsPruner"}
    assert set(loops()) == keeping | {
        "ProcessCollector", "HealthCollector", "SystemCollector", "FleetCollector",
    }  # fmt: skip
    assert set(loops(index=1)) == keeping | {"ProcessCollector", "HealthCollector"}
    off = {"process": False, "system": False, "queues": False, "schedules": False, "locks": False}
    assert set(loops(collection=off)) == keeping
    for switch, collectors in (
        ("process", {"ProcessCollector", "HealthCollector"}), ("system", {"SystemCollector"}),
        ("queues", {"FleetCollector"}), ("schedules", {"FleetCollector"}), ("locks", {"FleetCollector"}),
    ):  # fmt: skip
        assert set(loops(collection={**off, switch: True})) == keeping | collectors


def test_the_text_file_is_written_by_whoever_adds_up_the_workers(tmp_path: Path) -> None:
    path = tmp_path / "metrics.prom"
    often = {"interval": "3s"}
    alone = loops(textfile=str(path), collection=often)
    led = loops(textfile=str(path), collection=often, tell=lambda samples: None)
    assert alone["Textfile"]["_path"] == path
    assert alone["Textfile"]["_interval_ms"] == led["Teller"]["_interval_ms"] == 3_000
    assert "Teller" not in alone
    assert "Teller" in led
    assert "Textfile" not in led


def test_pools_are_measured_at_the_interval() -> None:
    settings = MetricsSettings.model_validate({"collection": {"interval": "3s"}})
    pools: Any = None
    assert vars(pool_metrics(MetricsRegistry(), pools, settings, TestClock(0), index=0))["_interval_ms"] == 3_000


async def test_the_supervisor_writes_the_file_at_the_interval_and_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "metrics.prom"
    settings = MetricsSettings.model_validate({"collection": {"interval": "3s"}, "textfile": str(path)})
    order = _metrics_order(settings)
    assert order == MetricsOrder(interval_ms=3_000, textfile=str(path))
    met, clock = asyncio.Event(), ManualClock()
    met.set()
    run: Any = SimpleNamespace(
        met=met, hello=SimpleNamespace(metrics=order), living=list, exit_code=0, when_ready=print
    )
    serving = asyncio.create_task(Measures(run, clock, lambda event: None).serve())
    for _ in range(3):
        await clock.somebody_sleeps()
        assert not path.exists()
        clock.pass_time(1)
    await clock.somebody_sleeps()
    assert path.exists()
    path.unlink()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert path.exists()


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

    @app.handler("resize")
    async def resize(job: Job[None]) -> None: ...

    async with Worker(app, store=f"sqlite:///{project}/shop.db") as worker:
        await (await worker.client.enqueue(resize.job())).result()
        (await worker.get(Metrics)).counter("made_total")
        assert (await worker.get(Metrics)).snapshot() == []
    assert not (project / "shop.db.metrics.db").exists()


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
async def test_each_place_has_its_store(tmp_path: Path, where: Callable[[Path], MetricsPlace], kind: type[Any]) -> None:
    store = metric_store_at(where(tmp_path), MetricsRegistry())
    assert isinstance(store, kind)  # a server that is down delays metrics, it does not stop a worker
    await store.close()


async def test_what_memory_has_no_room_for_is_counted() -> None:
    registry = MetricsRegistry()
    store = metric_store_at(MetricsPlace("shop"), registry)
    rows = [MetricRow(name="x", kind="counter", labels=(), at_ms=at_ms, value=1) for at_ms in range(60_000)]
    await store.write(rows[:40_000])
    await store.write(rows)
    assert registry.snapshot() == []
    await store.write(rows[:7])
    (dropped,) = registry.snapshot()
    assert (dropped.name, dropped.labels, dropped.value) == (DROPPED, (("reason", "memory_full"),), 7)
    assert [each.value for each in await store.totals()] == [100_000]


async def test_jobs_go_on_beside_a_damaged_file_and_metrics_are_written_once_it_is_moved_away(project: Path) -> None:
    app = App("shop", modules=[MetricsModule(flush_interval="100ms", cleanup_interval="1s")])

    @app.handler("resize")
    async def resize(job: Job[int]) -> int:
        return job.data

    damaged = project / "shop.db.metrics.db"
    damaged.write_bytes(b"not a database " * 1_000)
    async with Worker(app, store=f"sqlite:///{project}/shop.db") as worker:
        for number in range(3):
            assert await (await worker.client.enqueue(resize.job(number))).result() == number

        def told() -> list[MetricsUnavailable]:
            return [event for event in worker.events if isinstance(event, MetricsUnavailable)]

        await until(lambda: len(told()) == 2, 60)  # by those who write, and by those who clean up
        for event in told():
            assert (event.store, "not a database" in event.reason) == (str(damaged), True)
        damaged.rename(project / "damaged")
        metrics = await worker.get(Metrics)

        async def done() -> float:
            found = await metrics.query("workfleet_jobs_total")
            return sum(point.increase for each in found for point in each.points if isinstance(point, CounterPoint))

        async with asyncio.timeout(60):
            while await done() != 3:
                await asyncio.sleep(0.02)
        assert len(told()) == 2, "once an outage"
