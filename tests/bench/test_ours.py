"""Our side of each SQLite bench, small: real workers, real figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.cases import backlog_sqlite
from bench.registry import all_benches
from bench.session import measure

BENCHES = all_benches()


def test_throughput_is_measured_with_a_real_worker() -> None:
    found = measure(BENCHES["throughput-sqlite"], {}, [], size=500, runs=1)
    assert list(found.ours) == ["jobs_per_s"]
    assert 100 < found.ours["jobs_per_s"] < 1_000_000


def test_enqueueing_is_measured() -> None:
    found = measure(BENCHES["enqueue-sqlite"], {}, [], size=2_500, runs=1)
    assert 100 < found.ours["jobs_per_s"] < 10_000_000


def test_latency_is_measured() -> None:
    found = measure(BENCHES["latency-sqlite"], {}, [], size=10, runs=1)
    assert 0 < found.ours["p50_ms"] <= found.ours["p99_ms"] < 10_000


@pytest.mark.full
def test_idling_is_measured() -> None:
    # Longer than a poll, so that a worker that does nothing else asks the store.
    found = measure(BENCHES["idle-sqlite"], {}, [], size=12, runs=1)
    assert found.ours["statements_per_minute"] > 0
    together = found.ours["worker_percent"] + found.ours["supervisor_percent"]
    assert found.ours["percent_of_a_core"] == pytest.approx(together)


@pytest.mark.full
def test_a_backlog_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog_sqlite, "MEASURED", 500)
    bench = replace(BENCHES["backlog-sqlite"])
    found = measure(bench, {}, ["empty-queue"], size=2_000, runs=1)
    assert found.ours["delayed_ratio"] > 0
    assert abs(found.ours["rss_growth_mb"]) < 100
    assert found.ours["rss_mb"] > 10
