"""The bench of observability: both states on both stores are measured for real, small."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.bench import Trial, document
from bench.cases import observe
from bench.cases.observe import BENCH, OFF, overheads
from bench.registry import all_benches
from bench.session import OURS, measure
from workfleet.settings.health import HealthSettings
from workfleet.settings.load import load
from workfleet.settings.pools import PoolsSettings
from workfleet.settings.sections import LogSettings, MetricsSettings, TracingSettings

DOCUMENTATION = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()


@pytest.mark.full
def test_both_states_are_measured_on_both_stores() -> None:
    found = measure(all_benches()["observe"], {}, [], size=300, runs=1)
    printed = document(BENCH, found)
    assert (printed["bench"], printed["unit"], printed["better"]) == ("observe", "%", "lower")
    lost = [found.ours[f"{store}_overhead_percent"] for store in ("sqlite", "redis")]
    assert printed["ours"] == printed["overhead_percent"] == round(max(lost), 3)
    for store in ("sqlite", "redis"):
        for state in ("on", "off"):
            assert 10 < found.ours[f"{store}_{state}_jobs_per_s"] < 1_000_000
            assert 1 < found.ours[f"{store}_{state}_cpu_us"] < 100_000


def test_what_is_lost_is_told_of_the_worse_store() -> None:
    medians = {
        OURS: {
            "sqlite_on_jobs_per_s": 90.0, "sqlite_off_jobs_per_s": 100.0, "sqlite_on_cpu_us": 11.0,
            "sqlite_off_cpu_us": 10.0, "redis_on_jobs_per_s": 160.0, "redis_off_jobs_per_s": 200.0,
            "redis_on_cpu_us": 30.0, "redis_off_cpu_us": 20.0,
        }
    }  # fmt: skip
    assert overheads(medians) == {
        "overhead_percent": pytest.approx(20),
        "sqlite_overhead_percent": pytest.approx(10),
        "redis_overhead_percent": pytest.approx(20),
        "sqlite_cpu_overhead_percent": pytest.approx(10),
        "redis_cpu_overhead_percent": pytest.approx(50),
    }


def test_the_states_take_turns_in_being_the_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    order: list[tuple[str, bool]] = []

    def rate(store: str, trial: Trial, settings: Mapping[str, str]) -> float:
        order.append((store, settings == OFF))
        for name in ("first", "last"):
            (trial.folder / f"{name}.cpu").write_text("1.5" if name == "first" else "3.5")
        return 10.0

    stores = {"sqlite": lambda *given: rate("sqlite", *given), "redis": lambda *given: rate("redis", *given)}
    monkeypatch.setattr(observe, "STORES", stores)
    with BENCH.ours(Trial(1_000_000, tmp_path)) as turn:
        assert turn()["redis_off_cpu_us"] == 2
        turn()
    assert order == [(store, off) for first in (False, True) for store in stores for off in (first, not first)]


def test_off_is_what_the_documentation_says() -> None:
    for name, value in OFF.items():
        prefix = "WORKER_HEALTH__"
        part = f"`{name.removeprefix(prefix)}`"
        assert f"`{name}={value}`" in DOCUMENTATION or (name.startswith(prefix) and part in DOCUMENTATION), name


def test_off_turns_off_every_switch_there_is() -> None:
    loaded = load(environ={"WORKER_HEARTBEAT_ENABLED": "false", **OFF}, cwd=Path(__file__).parent)
    health, metrics = loaded.section("health", HealthSettings), loaded.section("metrics", MetricsSettings)
    switches = {name: value for name, value in health if isinstance(value, bool)}
    assert switches
    assert not any(switches.values())
    assert not metrics.collection.enabled
    assert metrics.textfile is None
    assert loaded.section("log", LogSettings).level == "critical"
    assert not loaded.section("tracing", TracingSettings).enabled
    assert not loaded.section("pools", PoolsSettings).monitoring.metrics
