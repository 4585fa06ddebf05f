"""The settings of health reach the indicators, and what makes no sense stops the start."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.app.working import Worker, problems
from workfleet import App, Health, HealthModule, Job
from workfleet.app.builtins import Basis
from workfleet.app.composition import compose
from workfleet.app.indicators import folders_of
from workfleet.app.readiness import Readiness
from workfleet.bus import Bus
from workfleet.clock import SystemClock
from workfleet.health.indication import Indication
from workfleet.model.fleet import PoolReport
from workfleet.settings.health import HealthSettings, HealthThresholds, QueueAges
from workfleet.settings.sections import MetricsSettings
from workfleet.stores.open import open_store

LOW_AND_HIGH: dict[str, tuple[Any, Any]] = {
    "memory": (1e-9, 1),
    "event-loop": ("1ms", "9h"),
    "store": ("1ms", "9h"),
    "disk": (1e-9, 1),
    "queues": ("1ms", "9h"),
    "schedules": ("1ms", "9h"),
}


def low(name: str, *statuses: str) -> dict[str, Any]:
    """The thresholds of an indicator for these statuses, passed by whatever is the case; the others out of reach."""
    lowest, highest = LOW_AND_HIGH[name]
    option = name.replace("-", "_")
    said = {f"{option}_{status}": lowest if status in statuses else highest for status in ("degraded", "unhealthy")}
    return {**said, "disk_enough": "1000TB"}


class SlowTrip:
    """A store whose round trips take 5 ms, as the pulse tells."""

    def __init__(self, worker: Worker) -> None:
        probe = worker.runtime.probe
        assert probe.last is not None
        probe.last = type(probe.last)(probe.last.ended_s, 5.0)


async def reported(name: str, thresholds: dict[str, Any], critical: list[str]) -> tuple[str, bool]:
    app = App("shop", modules=[HealthModule(thresholds=thresholds, critical=critical, cache_ttl="0s")])

    @app.handler("work", queue="other")
    async def work(job: Job[None]) -> None: ...

    @app.schedule("never", every="1s")
    async def never() -> None: ...

    async with Worker(app, scheduler_enabled=False, health={"store_interval": "1s"}) as worker:
        await worker.client.enqueue(work.job(None, queue="elsewhere"))
        health = await worker.get(Health)
        while not worker.runtime.sampler.percentile_ms(99) or worker.runtime.probe.last is None:
            await worker.runtime.clock.sleep(0.01)
        SlowTrip(worker)
        for _ in range(1_000):
            report = await health.check_one(name)
            if report.status != "healthy":
                break
            await worker.runtime.clock.sleep(0.01)
        return report.status, report.critical


@pytest.mark.parametrize("name", LOW_AND_HIGH)
async def test_thresholds_reach_their_indicator(project: Path, name: str) -> None:
    option = name.replace("-", "_")
    critical = [option] if option != "store" else []
    assert await reported(name, low(name, "degraded", "unhealthy"), critical) == ("unhealthy", True)


@pytest.mark.parametrize("name", LOW_AND_HIGH)
async def test_each_threshold_is_its_own_and_what_is_not_listed_is_not_critical(project: Path, name: str) -> None:
    assert await reported(name, low(name, "degraded"), []) == ("degraded", name == "store")


async def test_so_much_free_space_is_enough_whatever_the_share(project: Path) -> None:
    async def said(enough: str) -> str:
        thresholds = {"disk_degraded": 1e-9, "disk_unhealthy": 1e-8, "disk_enough": enough}
        app = App("shop", modules=[HealthModule(thresholds=thresholds, cache_ttl="0s")])
        async with Worker(app) as worker:
            return (await (await worker.get(Health)).check_one("disk")).status

    assert [await said("1000TB"), await said("1B")] == ["unhealthy", "healthy"]


async def test_the_ages_of_single_queues(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKER_HEALTH__QUEUE_AGES__PHOTO_UPLOADS__DEGRADED", "1ms")
    app = App("shop", modules=[HealthModule(queue_ages={"photo-uploads": {"unhealthy": None}}, event_loop=False)])
    app.handler("work", queue="photo-uploads")(_nothing)
    settings = Worker(app).composition.loaded.section("health", HealthSettings)
    assert settings.own_ages == {"photo-uploads": (1, None)}


async def test_the_ages_of_single_queues_reach_the_indicator(project: Path) -> None:
    ages = {"elsewhere": {"degraded": "1ms", "unhealthy": "1h"}}
    app = App("shop", modules=[HealthModule(queue_ages=ages, store_interval="1s", cache_ttl="0s")])
    job = app.handler("work", queue="elsewhere")(_nothing).job
    async with Worker(app, queues=("worker-default",)) as worker, asyncio.timeout(60):
        health = await worker.get(Health)
        await worker.client.enqueue(job(None))
        while (said := await health.check_one("queues")).status == "healthy":
            await worker.runtime.clock.sleep(0.05)
        assert (said.status, said.reason.partition(":")[0]) == ("degraded", "elsewhere")


async def test_a_look_at_the_store_is_given_up_before_the_indicator_is(project: Path) -> None:
    """So that what was read last counts; of the store itself another indicator tells."""
    app = App("shop", modules=[HealthModule(timeout="6s", cache_ttl="0s", store_interval="1s")])
    async with Worker(app) as worker:

        async def hangs(**options: Any) -> Any:
            await asyncio.Event().wait()

        worker.store.jobs.counts = hangs  # type: ignore[method-assign]
        health = await worker.get(Health)
        while (said := await health.check_one("queues")).took_ms < 100:  # what is recent is not read again
            await worker.runtime.clock.sleep(0.05)
        assert (said.status, said.took_ms > 4_500) == ("healthy", True)


async def _nothing(job: Job[None]) -> None: ...


def test_what_is_left_out_for_a_queue_is_as_for_the_others() -> None:
    settings = HealthSettings(queue_ages={"a": QueueAges(degraded="5s"), "b": QueueAges()})  # type: ignore[arg-type]
    assert settings.own_ages == {"a": (5_000, 3_600_000), "b": (600_000, 3_600_000)}


@pytest.mark.parametrize(
    ("said", "name", "message"),
    [
        ({"thresholds": {"memory_degraded": 0.99}}, "health.thresholds",
         "memory_degraded (0.99) is above memory_unhealthy (0.95)"),
        ({"thresholds": {"disk_degraded": 0}}, "health.thresholds.disk_degraded", "share above 0 and up to 1"),
        ({"critical": ["store"]}, "health.critical", "memory, event_loop, disk"),
        ({"queue_ages": {"nobody": {"degraded": "1s"}}}, "health.queue_ages.nobody.degraded",
         "there is no queue 'nobody'"),
        ({"interval": "1ms"}, "health.interval", "100ms to 1d"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_stops_the_start(project: Path, said: dict[str, Any], name: str, message: str) -> None:
    app = App("shop", modules=[HealthModule(**said)])
    (told,) = problems(app).items()
    assert name.rpartition(".")[2] in told[0]
    assert message in told[1]


def test_every_pair_of_thresholds_is_checked() -> None:
    pairs = [name for name in HealthThresholds.model_fields if name.endswith("_degraded")]
    for name in pairs:
        top = "1" if isinstance(HealthThresholds.model_fields[name].default, float) else "9h"
        with pytest.raises(ValueError, match=f"{name} .* is above {name.replace('_degraded', '_unhealthy')}"):
            HealthThresholds.model_validate({name: top})


@pytest.mark.parametrize(
    ("said", "unready"), [({}, True), ({"critical": ["redis"]}, False), ({"pools": False}, False)]
)  # fmt: skip
async def test_a_failed_pool_counts_unless_settings_say_otherwise(said: dict[str, Any], unready: bool) -> None:
    failed = PoolReport(name="video", state="failed", size=2, reason="all died")
    health = Health([], SystemClock(), lambda _event: None)
    readiness = Readiness(health, HealthSettings.model_validate(said), SystemClock(), lambda: [failed])
    readiness.report = await health.check()
    assert readiness.unready == (("pool video has failed: all died",) if unready else ())


async def test_the_interval_is_how_often_indicators_are_asked(project: Path) -> None:
    asked: list[float] = []
    app = App("shop", modules=[HealthModule(interval="150ms", cache_ttl="0s")])

    @app.health_indicator("counts")
    async def counts() -> Indication:
        asked.append(SystemClock().monotonic())
        return Indication("healthy")

    async with Worker(app) as worker, asyncio.timeout(25):  # the default would take 30 s
        while len(asked) < 4:
            await worker.runtime.clock.sleep(0.01)
    assert asked[3] - asked[0] >= 0.44


@pytest.mark.parametrize(("interval", "status"), [("1s", "unhealthy"), ("1h", "healthy")])
async def test_the_store_interval_is_how_long_an_answer_of_the_store_counts(
    project: Path, interval: str, status: str
) -> None:
    thresholds = {"queues_degraded": "1ms", "queues_unhealthy": "1ms"}
    app = App("shop", modules=[HealthModule(thresholds=thresholds, store_interval=interval, cache_ttl="0s")])

    @app.handler("work", queue="other")
    async def work(job: Job[None]) -> None: ...

    async with Worker(app) as worker:
        health, clock = await worker.get(Health), worker.runtime.clock
        assert (await health.check_one("queues")).status == "healthy"
        await worker.client.enqueue(work.job(None, queue="elsewhere"))
        until = clock.monotonic() + (60 if interval == "1s" else 1.5)
        while (said := (await health.check_one("queues")).status) == "healthy" and clock.monotonic() < until:
            await clock.sleep(0.05)
        assert said == status


def test_the_disks_that_are_watched_hold_what_a_worker_writes(project: Path) -> None:
    def folders(store: str, **said: Any) -> list[str]:
        composition = compose(App("shop"), cli={"store": store, **said})
        basis = Basis(composition, SystemClock(), Bus(), "w", open_store)
        found = folders_of(basis, composition.loaded.section("metrics", MetricsSettings))
        return sorted({str(folder.relative_to(project)) for folder in found})

    redis, file = "redis://127.0.0.1:1", f"sqlite:///{project}/a/store.db"
    off = {"collection": {"enabled": False}}
    assert folders(redis, metrics=off) == [".workfleet"]
    assert folders(redis, metrics=off, status_file=str(project / "s" / "s.json")) == ["s"]
    assert folders(file, metrics=off) == [".workfleet", "a"]
    assert folders(redis, metrics={**off, "textfile": str(project / "t" / "m.prom")}) == [".workfleet", "t"]
    assert folders(redis, status_file=str(project / "s" / "s.json")) == [".workfleet", "s"], "of the metrics"
