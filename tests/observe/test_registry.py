"""What is counted, by whom, and what is not."""

from __future__ import annotations

import threading
import tracemalloc
from decimal import Decimal
from fractions import Fraction
from math import inf, isfinite, nan

import pytest

from workfleet.errors import UsageError
from workfleet.observe.metrics.model import DEFAULT_BUCKETS, MetricRow, Sample
from workfleet.observe.metrics.registry import DROPPED, MetricsRegistry
from workfleet.ports.metrics import Metrics


def row(name: str, kind: str, value: float, labels: tuple[tuple[str, str], ...] = (), **rest: object) -> MetricRow:
    return MetricRow(name=name, kind=kind, labels=labels, at_ms=5, value=value, **rest)  # type: ignore[arg-type]


def test_rows_are_what_is_new_and_the_snapshot_is_all() -> None:
    registry = MetricsRegistry()
    registry.counter("photos_total", 2)
    registry.counter("photos_total")
    registry.gauge("photos_waiting", 7)
    registry.gauge("photos_waiting", 4)
    assert registry.drain(5) == [row("photos_total", "counter", 3), row("photos_waiting", "gauge", 4)]
    assert registry.drain(5) == []
    registry.counter("photos_total", 0.5)
    assert registry.drain(5) == [row("photos_total", "counter", 0.5)]
    assert registry.snapshot() == [
        Sample(name="photos_total", kind="counter", labels=(), value=3.5),
        Sample(name="photos_waiting", kind="gauge", labels=(), value=4),
    ]


def test_a_histogram_counts_by_upper_bound() -> None:
    registry = MetricsRegistry()
    registry.define("size_bytes", "histogram", buckets=[10, 20])
    for value in (1, 10, 11, 20, 21, -1):
        registry.histogram("size_bytes", value)
    assert registry.drain(5) == [
        row("size_bytes", "histogram", 62, count=6, bounds=(10.0, 20.0), buckets=(3, 2, 1)),
    ]
    registry.histogram("size_bytes", 15)
    assert registry.drain(5) == [row("size_bytes", "histogram", 15, count=1, bounds=(10.0, 20.0), buckets=(0, 1, 0))]
    (sample,) = registry.snapshot()
    assert (sample.value, sample.count, sample.buckets) == (77, 7, (3, 3, 1))
    registry.histogram("other_seconds", 0.3)
    assert registry.drain(5)[0].bounds == DEFAULT_BUCKETS


def test_labels_are_the_identity_whatever_their_order_and_content() -> None:
    registry = MetricsRegistry()
    registry.counter("x_total", labels={"a": "1", "b": "2"})
    registry.counter("x_total", labels={"b": "2", "a": "1"})
    registry.counter("x_total", labels={"a": "1,b=2"})
    registry.counter("x_total", labels={"a": "1"})
    registry.counter("x_total", labels={})
    assert {each.labels: each.value for each in registry.snapshot()} == {
        (): 1,
        (("a", "1"),): 1,
        (("a", "1"), ("b", "2")): 2,
        (("a", "1,b=2"),): 1,
    }


def test_series_are_limited_and_the_drop_is_counted() -> None:
    registry = MetricsRegistry(max_series=10)
    for number in range(100_000):
        registry.counter("x_total", labels={"id": str(number)})
    registry.counter("x_total", labels={"id": "3"})
    registry.gauge("y", 1)
    samples = registry.snapshot()
    assert len(samples) == 11
    assert [each for each in samples if each.name == DROPPED] == [
        Sample(name=DROPPED, kind="counter", labels=(("reason", "series_limit"),), value=99_991)
    ]
    assert sum(each.value for each in samples if each.name == "x_total") == 11


def test_what_is_not_finite_is_dropped_and_counted() -> None:
    registry = MetricsRegistry()
    for bad in (nan, inf):
        registry.counter("a_total", bad)
        registry.gauge("b", bad)
        registry.histogram("c", bad)
    assert registry.drain(5) == [row(DROPPED, "counter", 6, (("reason", "not_finite"),))]


@pytest.mark.parametrize("name", ["", "1x", "a-b", "a b", "é", "a{b}", "a\n"])
def test_names_are_checked(name: str) -> None:
    with pytest.raises(UsageError, match="is no metric name"):
        MetricsRegistry().counter(name)


@pytest.mark.parametrize("label", ["", "1x", "a-b", "__a", "le", "quantile"])
def test_labels_are_checked(label: str) -> None:
    with pytest.raises(UsageError, match="is no label name"):
        MetricsRegistry().gauge("x", 1, labels={label: "v"})


def test_a_name_has_one_kind_and_a_counter_only_grows() -> None:
    registry = MetricsRegistry()
    registry.counter("x")
    for call in (lambda: registry.gauge("x", 1), lambda: registry.histogram("x", 1, labels={"a": "b"})):
        with pytest.raises(UsageError, match="metric x is a counter, not a"):
            call()
    with pytest.raises(UsageError, match="metric x: a counter only grows, so it takes no -1"):
        registry.counter("x", -1)
    with pytest.raises(UsageError, match="metric x is a counter, not a histogram"):
        registry.define("x", "histogram")
    assert [each.value for each in registry.snapshot()] == [1]


def test_buckets_are_fixed_and_ascending() -> None:
    registry = MetricsRegistry()
    registry.define("x", "histogram", buckets=[1, 2])
    registry.define("x", "histogram", buckets=[1, 2])
    with pytest.raises(UsageError, match=r"metric x has other buckets already: \(1\.0, 2\.0\)"):
        registry.define("x", "histogram", buckets=[1, 3])
    for wrong in ([], [2, 1], [1, 1], [1, inf]):
        with pytest.raises(UsageError, match="finite upper bounds in ascending order"):
            registry.define("y", "histogram", buckets=wrong)


def test_threads_lose_nothing() -> None:
    registry = MetricsRegistry()
    drained: list[MetricRow] = []

    def count() -> None:
        for _ in range(20_000):
            registry.counter("x_total")
            registry.histogram("y", 1)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        drained += registry.drain(5)
    drained += registry.drain(5)
    assert sum(each.value for each in drained if each.name == "x_total") == 80_000
    assert sum(each.count for each in drained if each.name == "y") == 80_000


def test_what_is_not_finite_makes_no_series_and_no_sum_becomes_infinite() -> None:
    registry = MetricsRegistry()
    for value in (nan, inf, -inf):
        registry.gauge("g", value)
        registry.histogram("h", value)
    registry.counter("c", inf)
    for _ in range(3):
        registry.counter("big", 1e308)
        registry.histogram("wide", 1e308)
    registry.histogram("wide", -1e308)
    other = MetricsRegistry()
    other.counter("big", 1e308)
    registry.absorb(other.drain(5))
    found = {each.name: (each.value, each.count) for each in registry.snapshot()}
    assert found == {"big": (1e308, 0), "wide": (0, 2), DROPPED: (12, 0)}
    assert all(map(isfinite, (row.value for row in registry.drain(5))))


def test_any_type_of_number_is_taken_and_nothing_else() -> None:
    registry = MetricsRegistry()
    for number, value in enumerate((7, True, Decimal("0.5"), Fraction(1, 4), 10**400)):
        registry.gauge("g", value, labels={"n": str(number)})  # type: ignore[arg-type]
    assert [(type(each.value), each.value) for each in registry.snapshot()] == [
        (float, 7.0), (float, 1.0), (float, 0.5), (float, 0.25), (float, 1.0),
    ]  # fmt: skip
    for wrong in ("5", b"5", None, object()):
        for call in (registry.gauge, registry.counter, registry.histogram):
            with pytest.raises(UsageError, match="is no number"):
                call("g", wrong)  # type: ignore[arg-type]


def test_label_values_are_text_of_a_length_that_can_be_kept() -> None:
    registry = MetricsRegistry()
    registry.counter("x", labels={"a": 1})  # type: ignore[dict-item]
    registry.counter("x", labels={"a": "1"})
    registry.counter("y", labels={"a": "ä" * 5_000})
    registry.counter("y", labels={"a": "ä" * 1_000})
    registry.counter("z", labels={"a": "half \ud800"})
    assert [(each.name, each.labels, each.value) for each in registry.snapshot()] == [
        ("x", (("a", "1"),), 2),
        ("y", (("a", "ä" * 1_000),), 2),
        ("z", (("a", "half ?"),), 1),
    ]


def test_the_application_s_series_do_not_take_the_room_of_ours_nor_ours_its() -> None:
    registry = MetricsRegistry(max_series=3)
    for number in range(5):
        registry.gauge("x", number, labels={"id": str(number)})
        registry.put("workfleet_queue_paused", (("queue", str(number)),), number)
    registry.forget("workfleet_queue_paused", (("queue", "0"),))
    registry.add("workfleet_locks_total", ())
    registry.add("workfleet_store_errors_total", ())
    found = {(each.name, *(value for _, value in each.labels)): each.value for each in registry.snapshot()}
    assert found == {
        ("x", "0"): 0, ("x", "1"): 1, ("x", "2"): 2, ("workfleet_queue_paused", "1"): 1,
        ("workfleet_queue_paused", "2"): 2, ("workfleet_locks_total",): 1, (DROPPED, "series_limit"): 5,
    }  # fmt: skip


def test_no_metric_has_the_name_of_a_part_of_a_histogram() -> None:
    registry = MetricsRegistry()
    registry.histogram("x", 1)
    for part in ("x_bucket", "x_sum", "x_count"):
        with pytest.raises(UsageError, match=f"metric {part} has the name of a part of the histogram x"):
            registry.counter(part)
    registry.counter("y_count")
    with pytest.raises(UsageError, match="metric y_count has the name of a part of the histogram y"):
        registry.define("y", "histogram")
    registry.gauge("y", 1)
    registry.gauge("y_sum", 1)
    registry.absorb([row("x_sum", "counter", 1)])
    assert {each.name: each.value for each in registry.snapshot()}[DROPPED] == 1


def test_a_histogram_of_more_names_than_are_remembered_is_no_trouble() -> None:
    registry = MetricsRegistry(max_series=1)
    registry.define("x", "gauge")
    registry.absorb([row("h", "histogram", 1, count=1, bounds=(2.0,), buckets=(1, 0))])
    assert {each.name: each.value for each in registry.snapshot() if each.name == DROPPED} == {DROPPED: 1}


def test_the_registry_is_a_sink() -> None:
    sink: Metrics = MetricsRegistry()
    sink.counter("x")


def test_a_hundred_thousand_label_values_take_bounded_memory() -> None:
    registry = MetricsRegistry()
    for number in range(10_000):
        registry.counter("x_total", labels={"id": str(number)})
    tracemalloc.start()
    for number in range(100_000):
        registry.counter("x_total", labels={"id": f"more {number}"})
        registry.histogram(f"y{number}_seconds", 1, labels={"id": str(number)})
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 4_000_000, "names and kinds are limited too"
    dropped = {each.labels: each.value for each in registry.snapshot() if each.name == DROPPED}
    assert dropped == {(("reason", "series_limit"),): 200_000}


def test_what_another_process_has_counted_is_taken_in() -> None:
    registry, other = MetricsRegistry(), MetricsRegistry()
    registry.counter("x_total", 2, labels={"a": "b"})
    for each in (registry, other):
        each.histogram("y", 0.3)
    other.counter("x_total", 3, labels={"a": "b"})
    other.gauge("z", 7)
    registry.absorb(other.drain(5))
    assert [(each.name, each.value, each.count) for each in registry.snapshot()] == [
        ("x_total", 5, 0),
        ("y", 0.6, 2),
        ("z", 7, 0),
    ]
    assert {row.name: row.value for row in registry.drain(5)} == {"x_total": 5, "y": 0.6, "z": 7}


def test_a_gauge_can_be_forgotten_and_nothing_else() -> None:
    registry = MetricsRegistry()
    registry.gauge("z", 7, labels={"a": "b"})
    registry.counter("x_total")
    registry.forget("z", (("a", "b"),))
    registry.forget("z", ())
    registry.forget("x_total", ())
    assert [each.name for each in registry.snapshot()] == ["x_total"]
    registry.gauge("z", 1, labels={"a": "b"})
    assert [each.value for each in registry.snapshot()] == [1, 1]
