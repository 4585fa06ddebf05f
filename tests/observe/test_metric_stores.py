"""What a metric store is: one suite for every store, then what only the SQLite one has to do."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from workfleet.errors import StoreUnavailable, UsageError
from workfleet.observe.metrics.aggregate import quantile
from workfleet.observe.metrics.memory import MemoryMetricStore
from workfleet.observe.metrics.model import (
    CounterPoint,
    GaugePoint,
    HistogramPoint,
    MetricQuery,
    MetricRow,
    MetricSeries,
)
from workfleet.observe.metrics.sqlite import SqliteMetricStore, metrics_path
from workfleet.observe.metrics.store import MetricStore


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MetricStore]:
    store: MetricStore = (
        MemoryMetricStore() if request.param == "memory" else await SqliteMetricStore.open(tmp_path / "m.db", "shop")
    )
    yield store
    await store.close()
    await store.close()


def row(at_ms: int, value: float, name: str = "x", kind: Any = "counter", **labels: str) -> MetricRow:
    return MetricRow(name=name, kind=kind, labels=tuple(sorted(labels.items())), at_ms=at_ms, value=value)


def histogram(at_ms: int, total: float, bounds: tuple[float, ...], *buckets: int) -> MetricRow:
    return MetricRow(
        name="h",
        kind="histogram",
        labels=(),
        at_ms=at_ms,
        value=total,
        count=sum(buckets),
        bounds=bounds,
        buckets=buckets,
    )


def ask(name: str = "x", from_ms: int = 0, to_ms: int = 100_000, **rest: Any) -> MetricQuery:
    return MetricQuery(name=name, from_ms=from_ms, to_ms=to_ms, **rest)


async def test_counters_add_their_increases(store: MetricStore) -> None:
    await store.write([row(1_000, 3), row(11_000, 5), row(12_000, 2), row(35_000, 1)])
    assert await store.query(ask(to_ms=40_000)) == [
        MetricSeries(name="x", kind="counter", labels={}, points=(CounterPoint(at_ms=0, increase=11, rate=0.275),))
    ]
    (series,) = await store.query(ask(to_ms=40_000, step_ms=10_000))
    assert series.points == (
        CounterPoint(at_ms=0, increase=3, rate=0.3),
        CounterPoint(at_ms=10_000, increase=7, rate=0.7),
        CounterPoint(at_ms=30_000, increase=1, rate=0.1),
    )


async def test_the_rate_counts_only_time_in_the_range(store: MetricStore) -> None:
    await store.write([row(6_000, 4), row(10_000, 2)])
    (series,) = await store.query(ask(from_ms=6_000, to_ms=12_000, step_ms=10_000))
    assert series.points == (
        CounterPoint(at_ms=0, increase=4, rate=1),
        CounterPoint(at_ms=10_000, increase=2, rate=1),
    )


async def test_the_range_includes_its_start_and_not_its_end(store: MetricStore) -> None:
    await store.write([row(999, 1), row(1_000, 10), row(1_999, 100), row(2_000, 1_000)])
    (series,) = await store.query(ask(from_ms=1_000, to_ms=2_000))
    assert series.points == (CounterPoint(at_ms=1_000, increase=110, rate=110),)
    assert await store.query(ask(from_ms=3_000, to_ms=4_000)) == []
    assert await store.query(ask("other")) == []


async def test_gauges_keep_last_mean_and_extremes(store: MetricStore) -> None:
    await store.write([row(3_000, 2, kind="gauge"), row(1_000, 9, kind="gauge"), row(2_000, 1, kind="gauge")])
    (series,) = await store.query(ask())
    assert series.points == (GaugePoint(at_ms=0, last=2, mean=4, min=1, max=9),)


async def test_histograms_add_their_buckets(store: MetricStore) -> None:
    await store.write([histogram(1_000, 30, (1, 2, 4), 5, 0, 5, 0), histogram(2_000, 13, (1, 2, 4), 0, 9, 0, 1)])
    (series,) = await store.query(ask("h"))
    (point,) = series.points
    assert isinstance(point, HistogramPoint)
    assert (point.count, point.sum, point.mean) == (20, 43, 2.15)
    assert (point.p50, point.p90) == (pytest.approx(1 + 5 / 9), pytest.approx(2 + 2 * 4 / 5))
    assert (point.p95, point.p99) == (4, 4), "above the highest bound is the highest bound"


async def test_bounds_may_change_between_releases(store: MetricStore) -> None:
    await store.write([histogram(1_000, 2, (1, 4), 2, 0, 0), histogram(2_000, 6, (2, 4), 2, 0, 0)])
    (series,) = await store.query(ask("h"))
    (point,) = series.points
    assert isinstance(point, HistogramPoint)
    assert (point.count, point.p50, point.p99) == (4, 1, pytest.approx(1 + 1.96 / 2))


async def test_labels_select_and_by_merges(store: MetricStore) -> None:
    await store.write(
        [
            row(1_000, 1, queue="a", job="x"),
            row(2_000, 2, queue="a", job="y"),
            row(3_000, 4, queue="b", job="x"),
            row(4_000, 8),
        ]
    )

    async def found(**rest: Any) -> list[tuple[dict[str, str], float]]:
        return [
            (series.labels, sum(point.increase for point in series.points if isinstance(point, CounterPoint)))
            for series in await store.query(ask(**rest))
        ]

    assert await found() == [
        ({}, 8),
        ({"job": "x", "queue": "a"}, 1),
        ({"job": "x", "queue": "b"}, 4),
        ({"job": "y", "queue": "a"}, 2),
    ]
    assert await found(labels={"queue": "a"}) == [({"job": "x", "queue": "a"}, 1), ({"job": "y", "queue": "a"}, 2)]
    assert await found(labels={"queue": "a", "job": "y"}) == [({"job": "y", "queue": "a"}, 2)]
    assert await found(labels={"queue": "c"}) == []
    assert await found(by=("queue",)) == [({}, 8), ({"queue": "a"}, 3), ({"queue": "b"}, 4)]
    assert await found(by=()) == [({}, 15)]


async def test_odd_label_values_stay_apart(store: MetricStore) -> None:
    values = ["", ",", "a=b", '"', "\x00", "é", "%", "'; drop table wf_metric_series; --", "\n"]
    await store.write([row(1_000, number, v=value) for number, value in enumerate(values, 1)])
    found = {series.labels["v"]: series.points[0] for series in await store.query(ask())}
    assert {value: point.increase for value, point in found.items() if isinstance(point, CounterPoint)} == {
        value: number for number, value in enumerate(values, 1)
    }


async def test_one_name_of_two_kinds_stays_apart(store: MetricStore) -> None:
    await store.write([row(1_000, 1), row(1_000, 2, kind="gauge")])
    assert [series.kind for series in await store.query(ask())] == ["counter", "gauge"]


async def test_rows_of_one_instant_all_count(store: MetricStore) -> None:
    await store.write([row(1_000, 1), row(1_000, 1)])
    await store.write([row(1_000, 1)])
    await store.write([])
    (series,) = await store.query(ask(to_ms=1_001))
    assert series.points == (CounterPoint(at_ms=0, increase=3, rate=pytest.approx(3 / 1.001)),)


async def test_pruning(store: MetricStore) -> None:
    await store.write([row(999, 1), row(1_000, 2), row(500, 4, name="gone")])
    assert await store.prune(1_000) == 2
    assert await store.prune(1_000) == 0
    (series,) = await store.query(ask())
    assert series.points == (CounterPoint(at_ms=0, increase=2, rate=0.02),)
    assert await store.query(ask("gone")) == []
    await store.write([row(2_000, 5, name="gone")])
    assert len(await store.query(ask("gone"))) == 1


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ({"from_ms": 5, "to_ms": 5}, "the time range is empty"),
        ({"step_ms": 0}, "a step must be longer than nothing"),
        ({"to_ms": 10_001, "step_ms": 1}, "10001 steps are too many"),
    ],
)
async def test_senseless_queries(store: MetricStore, rest: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        await store.query(ask(**rest))


def test_quantiles() -> None:
    inf = float("inf")
    assert quantile({}, 0.5) == 0
    assert quantile({inf: 3}, 0.5) == 0
    assert quantile({1: 0, 2: 4, inf: 0}, 0.5) == 1.5
    assert quantile({1: 4, 2: 0, inf: 0}, 1) == 1
    assert quantile({-2: 4, inf: 0}, 0.5) == -2
    assert quantile({10: 1, inf: 1}, 0.99) == 10


# SQLite only


def test_the_file_is_beside_the_stores() -> None:
    assert metrics_path(Path("/x/.workfleet/shop.db")) == Path("/x/.workfleet/shop.db.metrics.db")


async def test_a_file_outlives_its_store_and_apps_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "m.db"
    for app in ("shop", "blog"):
        store = await SqliteMetricStore.open(path, app)
        await store.write([row(1_000, 1), row(5_000, 1)])
        await store.close()
    shop = await SqliteMetricStore.open(path, "shop", create=False)
    assert await shop.prune(2_000) == 1
    blog = await SqliteMetricStore.open(path, "blog", create=False)
    found = {}
    for name, store in (("shop", shop), ("blog", blog)):
        (series,) = await store.query(ask())
        found[name] = series.points[0]
        await store.close()
    assert {name: point.increase for name, point in found.items() if isinstance(point, CounterPoint)} == {
        "shop": 1,
        "blog": 2,
    }


async def test_processes_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    program = """
import asyncio, sys
from pathlib import Path
from workfleet.observe.metrics.model import MetricRow
from workfleet.observe.metrics.sqlite import SqliteMetricStore
async def main():
    sys.stdin.read()
    store = await SqliteMetricStore.open(Path(sys.argv[1]), "shop")
    for at_ms in range(50):
        rows = [MetricRow(name="x", kind="counter", labels=(("n", str(n)),), at_ms=at_ms, value=1) for n in range(4)]
        await store.write(rows)
        await store.prune(-1)
    await store.close()
asyncio.run(main())
"""
    command = (sys.executable, "-c", program, str(path))
    children = [subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(5)]
    for child in children:  # all at once: the file does not exist yet
        assert child.stdin is not None
        child.stdin.close()
        child.stdin = None
    said = await asyncio.gather(*(asyncio.to_thread(child.communicate) for child in children))
    assert [(child.returncode, error) for child, (_, error) in zip(children, said, strict=True)] == [(0, "")] * 5
    store = await SqliteMetricStore.open(path, "shop", create=False)
    (series,) = await store.query(ask(to_ms=50, by=()))
    await store.close()
    assert series.points == (CounterPoint(at_ms=0, increase=1_000, rate=20_000),)


async def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    store = await SqliteMetricStore.open(tmp_path / "m.db", "shop")
    await store.write([row(1_000, 1)])
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    await store.close()
    assert modes == {"m.db": 0o600, "m.db-shm": 0o600, "m.db-wal": 0o600}


async def test_a_deleted_file_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    store = await SqliteMetricStore.open(path, "shop")
    await store.write([row(1_000, 1)])
    path.unlink()
    await store.write([row(2_000, 2)])
    assert path.exists()
    await store.close()
    other = await SqliteMetricStore.open(path, "shop", create=False)
    (series,) = await other.query(ask())
    await other.close()
    assert series.points == (CounterPoint(at_ms=0, increase=2, rate=0.02),)


def newer(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("pragma user_version = 7")
    connection.close()


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda path: None, "unable to open database file"),
        (lambda path: path.write_bytes(b"no database" * 1_000), "not a database"),
        (newer, r"written by a newer version \(format 7, this one knows 1\)\. Update workfleet"),
    ],
    ids=["missing", "garbage", "newer"],
)
async def test_a_file_that_cannot_be_used(tmp_path: Path, prepare: Callable[[Path], object], message: str) -> None:
    path = tmp_path / "m.db"
    prepare(path)
    with pytest.raises(StoreUnavailable, match=message) as caught:
        await SqliteMetricStore.open(path, "shop", create=False)
    assert caught.value.store == str(path)


async def test_a_failed_write_writes_nothing(tmp_path: Path) -> None:
    store = await SqliteMetricStore.open(tmp_path / "m.db", "shop")
    blocker = apsw.Connection(str(tmp_path / "m.db"))
    blocker.execute(
        "create trigger no before insert on wf_metric_point when new.value = 2 begin select raise(abort, 'no'); end"
    )
    with pytest.raises(StoreUnavailable, match="no"):
        await store.write([row(1_000, 1), row(1_000, 2)])
    assert await store.query(ask()) == []
    await store.write([row(1_000, 1)])
    assert len(await store.query(ask())) == 1
    blocker.close()
    await store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.write([row(1_000, 1)])
