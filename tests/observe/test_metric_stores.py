"""What a metric store is: one suite for every store."""

from __future__ import annotations

from itertools import pairwise
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.observe.rows import ask, histogram, row
from workfleet.errors import StoreUnavailable, UsageError
from workfleet.observe.metrics.aggregate import quantile
from workfleet.observe.metrics.memory import MemoryMetricStore
from workfleet.observe.metrics.model import (
    CounterPoint,
    GaugePoint,
    HistogramPoint,
    MetricSeries,
)
from workfleet.observe.metrics.store import MetricStore


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
    (series,) = await store.query(ask(to_ms=5_000))
    assert series.points == (GaugePoint(at_ms=0, last=2, mean=3.5, min=1, max=9),), "2 held for twice as long"


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
    assert (point.count, point.p50, point.p99) == (4, pytest.approx(2 / 3), pytest.approx(1.96))


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
    assert quantile({}, 0.5) == 0
    assert quantile({(0, inf): 3}, 0.5) == 0
    assert quantile({(0, 1): 0, (1, 2): 4, (2, inf): 0}, 0.5) == 1.5
    assert quantile({(0, 1): 4, (1, 2): 0, (2, inf): 0}, 1) == 1
    assert quantile({(0, 1): 0, (1, 2): 4}, 0) == 1
    assert quantile({(-2, -2): 4, (-2, inf): 0}, 0.5) == -2
    assert quantile({(0, 10): 1, (10, inf): 1}, 0.99) == 10
    assert quantile({(0, 10): 0, (10, inf): 1}, 0.5) == 10


def test_quantiles_of_histograms_with_different_bounds() -> None:
    # All is in (0, 10]; that another one has a bound at 9.9 says nothing about where.
    assert quantile({(0, 10): 100, (10, inf): 0, (0, 9.9): 0, (9.9, 10): 0}, 0.5) == 5
    # 10 in (0, 1] and 10 in (0, 4]: 12.5 of 20 are below 1, the others evenly up to 4.
    mixed = {(0, 1): 10, (1, inf): 0, (0, 4): 10, (4, inf): 0}
    assert quantile(mixed, 12.5 / 20) == pytest.approx(1)
    assert quantile(mixed, 16.25 / 20) == pytest.approx(2.5)
    assert quantile({(-2, -2): 5, (-2, 0): 5, (-5, -5): 0, (-5, inf): 0}, 0.25) == -2


@given(st.lists(st.tuples(st.floats(0, 100), st.sampled_from(["a", "b"])), min_size=1, max_size=60), st.floats(0, 1))
def test_a_quantile_is_never_further_off_than_a_bucket_is_wide(seen: list[tuple[float, str]], share: float) -> None:
    bounds = {"a": (5.0, 30.0, 60.0, 100.0), "b": (10.0, 40.0, 100.0)}
    buckets: dict[tuple[float, float], int] = {}
    for value, which in seen:
        ends = (0.0, *bounds[which])
        bucket = next(pair for pair in pairwise(ends) if value <= pair[1])
        buckets[bucket] = buckets.get(bucket, 0) + 1
    found = quantile(buckets, share)
    below = sum(value <= found - 60 for value, _ in seen)
    above = sum(value < found + 60 for value, _ in seen)
    assert below <= share * len(seen) + 1e-6
    assert above >= share * len(seen) - 1e-6


async def test_series_and_their_newest_instant(store: MetricStore) -> None:
    await store.write([row(3_000, 1, a="x"), row(9_000, 1, a="x"), row(4_000, 1, a="y"), row(1_000, 2, "g", "gauge")])
    assert [(each.name, each.kind, each.labels, each.at_ms) for each in await store.series()] == [
        ("g", "gauge", (), 1_000),
        ("x", "counter", (("a", "x"),), 9_000),
        ("x", "counter", (("a", "y"),), 4_000),
    ]
    await store.prune(5_000)
    assert [(each.name, each.at_ms) for each in await store.series()] == [("x", 9_000)]


async def test_what_a_series_comes_to(store: MetricStore) -> None:
    assert await store.totals() == []
    await store.write([row(9_000, 3, "g", "gauge"), row(8_000, 7, "g", "gauge"), row(1_000, 1.5), row(2_000, 2)])
    await store.write([histogram(1_000, 30, (1, 2), 5, 0, 5), histogram(2_000, 13, (1, 2), 0, 9, 1)])
    await store.write([histogram(3_000, 3, (2, 4), 1, 1, 1)])
    await store.write([row(number, 1, "many", n=str(number)) for number in range(12)])
    found = {each.name: each for each in await store.totals() if each.name != "many"}
    assert list(found) == ["g", "h", "x"]
    assert (found["g"].value, found["g"].at_ms) == (3, 9_000), "the newest, not the last written"
    assert (found["x"].value, found["x"].at_ms) == (3.5, 2_000)
    distribution = found["h"]
    assert (distribution.value, distribution.count, distribution.at_ms) == (46, 23, 3_000)
    assert (distribution.bounds, distribution.buckets) == ((1, 2, 4), (5, 10, 1, 7)), "of two releases, by bound"
    assert sum(each.value for each in await store.totals() if each.name == "many") == 12


async def test_a_quantile_that_is_asked_for(store: MetricStore) -> None:
    await store.write([histogram(1_000, 30, (1, 2, 4), 5, 0, 5, 0)])
    (series,) = await store.query(ask("h", quantile=0.75))
    (point,) = series.points
    assert isinstance(point, HistogramPoint)
    assert point.quantile == 3
    with pytest.raises(UsageError, match=r"1\.5 is no quantile"):
        await store.query(ask("h", quantile=1.5))


async def test_a_batch_larger_than_any_other(store: MetricStore) -> None:
    rows = [row(number, 1, n=str(number % 50), long="ä" * 4_000) for number in range(2_000)]
    await store.write(rows)
    assert sum(each.value for each in await store.totals()) == 2_000
    assert len(await store.series()) == 50


async def test_a_closed_store_says_so(store: MetricStore) -> None:
    await store.close()
    if not isinstance(store, MemoryMetricStore):
        with pytest.raises(StoreUnavailable, match="closed"):
            await store.write([row(1_000, 1)])
