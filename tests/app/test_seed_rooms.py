"""The options of the fleet document's modules reach the room that they are about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.app.working import Worker
from workfleet import (
    App,
    Health,
    HealthModule,
    LoggerModule,
    Metrics,
    MetricsModule,
    Module,
    Pools,
    PoolsModule,
    process,
    public,
)
from workfleet.app.metrics import metric_services
from workfleet.model.policy import Backoff
from workfleet.observe.metrics.memory import MemoryMetricStore
from workfleet.observe.metrics.registry import MetricsRegistry
from workfleet.observe.metrics.sqlite import SqliteMetricStore
from workfleet.observe.metrics.store import MetricStore
from workfleet.pools.options import PoolOptions, RestartPolicy
from workfleet.ports.metrics import FleetFacts
from workfleet.settings import LogSettings, MetricsSettings
from workfleet.testing import Fleet, TestClock

pytestmark = pytest.mark.usefixtures("project")


@process("images", size=3)
class Images:
    @public
    def resize(self, width: int) -> int:
        return width


@process("own", size=2, memory="100MB", call_timeout=None, startup_timeout="3s", graceful_timeout="2s", max_queue=5)
class Own:
    @public
    def work(self) -> None: ...


async def pool_options(*modules: Module, **said: Any) -> dict[str, PoolOptions]:
    async with Worker(App("shop", modules=modules, jobs=[Images, Own]), **said) as worker:
        pools = await worker.get(Pools)
        return {name: pools.get(name).options for name in pools.list()}


async def test_the_pools_module_s_options_are_what_every_pool_inherits() -> None:
    """As in the document, each of them another value than the default."""
    module = PoolsModule(
        isolation="process",
        restart_policy={
            "enabled": False, "max_restarts": 7, "window": "2m", "delay": "3s",
            "backoff": {"initial": "4s", "max": "50s", "factor": 3.0},
        },
        memory="512MB", call_timeout="45s", startup_timeout="20s", graceful_timeout="10s",
        health_check={"interval": "6s", "timeout": "1s"}, sweep_interval="7s", max_queue=9,
    )  # fmt: skip
    options = await pool_options(module)
    inherited = PoolOptions(
        name="images", size=3, memory_bytes=512_000_000, call_timeout_ms=45_000, startup_timeout_ms=20_000,
        graceful_timeout_ms=10_000, queue_limit=9, health_interval_ms=6_000, health_timeout_ms=1_000,
        sweep_interval_ms=7_000,
        restart=RestartPolicy(
            enabled=False, max_restarts=7, window_ms=120_000, delay_ms=3_000,
            backoff=Backoff("exponential", 4_000, 50_000, "full", 3.0),
        ),
    )  # fmt: skip
    assert options["images"] == inherited
    own = options["own"]
    assert (own.size, own.memory_bytes, own.call_timeout_ms, own.startup_timeout_ms) == (2, 100_000_000, None, 3_000)
    assert (own.graceful_timeout_ms, own.queue_limit, own.restart) == (2_000, 5, inherited.restart)
    assert options["cpu"].memory_bytes == 512_000_000


async def test_without_the_module_pools_have_the_document_s_defaults() -> None:
    options = (await pool_options())["images"]
    assert (options.call_timeout_ms, options.graceful_timeout_ms, options.memory_bytes) == (60_000, 30_000, None)
    assert (options.health_interval_ms, options.health_timeout_ms, options.sweep_interval_ms) == (5_000, 2_000, 5_000)
    assert options.restart == RestartPolicy()


async def test_an_operator_has_the_last_word_on_a_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("IMAGES__SIZE", "5"), ("IMAGES__MEMORY", "64MB"), ("OWN__MEMORY", "none")):
        monkeypatch.setenv(f"WORKER_POOLS__{name}", value)
    options = await pool_options(PoolsModule(memory="512MB"))
    assert (options["images"].size, options["images"].memory_bytes) == (5, 64_000_000)
    assert options["own"].memory_bytes is None


NAMES = {
    "memory": "memory", "event_loop": "event-loop", "store": "store", "pools": "pools", "disk": "disk",
    "database": "database", "queues": "queues", "schedules": "schedules",
}  # fmt: skip


@pytest.mark.parametrize("left_out", [None, *NAMES])
async def test_each_health_indicator_can_be_switched_off(left_out: str | None) -> None:
    on = {name: name != left_out for name in NAMES}
    module = HealthModule(**on)  # type: ignore[typeddict-item]
    async with Fleet(App("shop", modules=[module]), settings={"db": {"host": "nowhere", "name": "shop"}}) as fleet:
        report = await (await fleet.get(Health)).check()
    found = {indicator.name for indicator in report.indicators}
    assert found == {NAMES[option] for option, is_on in on.items() if is_on}


async def test_the_health_module_s_version_timeout_and_cache() -> None:
    module = HealthModule(version="7.1", timeout="300ms", cache_ttl="10s")
    async with Fleet(App("shop", modules=[module], version="6")) as fleet:
        health = await fleet.get(Health)
        first = await health.check()
        assert (first.version, vars(health)["_timeout_ms"]) == ("7.1", 300)
        await fleet.travel("9s")
        assert await health.check() is first
        await fleet.travel("2s")
        assert await health.check() is not first


def loops(index: int = 0, tell: Any = None, **said: Any) -> dict[str, dict[str, Any]]:
    """The loops of metrics with these settings, by class, and what each was given."""

    async def nothing() -> FleetFacts:
        return FleetFacts()

    services = metric_services(
        MetricsSettings.model_validate(said), MetricsRegistry(), MemoryMetricStore(), nothing,
        index=index, clock=TestClock(0), publish=lambda _event: None, health=lambda: None, tell=tell,
    )  # fmt: skip
    return {type(service).__name__: vars(service) for service in services}


def test_the_metrics_module_s_options_are_those_of_its_loops() -> None:
    made = loops(
        collection={"interval": "3s", "store_interval": "4m"}, batch_size=7, flush_interval="4s", retention="2d",
        cleanup_interval="5m",
    )  # fmt: skip
    assert (made["MetricsFlusher"]["_interval_ms"], made["MetricsFlusher"]["_batch_size"]) == (4_000, 7)
    for retention, again_ms in (("2d", 240_000), ("1m", 30_000)):
        unchanged = loops(retention=retention)["MetricsFlusher"]["_unchanged"]
        assert vars(unchanged)["_again_ms"] == again_ms, "sooner than it is deleted"
    assert (made["MetricsPruner"]["_max_age_ms"], made["MetricsPruner"]["_interval_ms"]) == (172_800_000, 300_000)
    assert made["ProcessCollector"]["_interval_ms"] == made["SystemCollector"]["_interval_ms"] == 3_000
    assert made["FleetCollector"]["_interval_ms"] == 240_000
    assert loops(collection={"enabled": False}) == {}


@pytest.mark.parametrize(("storage", "kind"), [("sqlite", SqliteMetricStore), ("memory", MemoryMetricStore)])
async def test_metrics_are_kept_where_the_module_says(project: Path, storage: Any, kind: type[Any]) -> None:
    app = App("shop", modules=[MetricsModule(storage=storage, app_name="front", flush_interval="100ms")])
    async with Worker(app, store=f"sqlite:///{project}/shop.db") as worker:
        assert isinstance(await worker.get(MetricStore), kind)
        (await worker.get(Metrics)).counter("made_total")
    assert (project / "shop.db.metrics.db").exists() == (storage == "sqlite")
    if storage == "sqlite":
        for name, count in (("front", 1), ("shop", 0)):
            async with Worker(App(name), store=f"sqlite:///{project}/shop.db") as worker:
                found = await (await worker.get(Metrics)).query("made_total")
                assert len(found) == count


async def test_the_logger_module_s_options_reach_the_logs() -> None:
    module = LoggerModule(level="warning", format="json", levels={"shop": "debug"})
    async with Fleet(App("shop", modules=[module])) as fleet:
        log = await fleet.get(LogSettings)
    assert (log.level, log.format, dict(log.levels)) == ("warning", "json", {"shop": "debug"})
