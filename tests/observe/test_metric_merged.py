"""Several processes as one: counters only grow, whoever dies; gauges are of the living."""

from __future__ import annotations

from workfleet.observe.metrics.merged import MergedSamples
from workfleet.observe.metrics.registry import DROPPED, MetricsRegistry
from workfleet.ports.metrics import Sample


def told(count: float = 0, gauge: float | None = None, *seen: float) -> list[Sample]:
    registry = MetricsRegistry()
    registry.define("h", "histogram", buckets=[1, 2])
    if count:
        registry.counter("c_total", count)
    if gauge is not None:
        registry.gauge("g", gauge)
    for value in seen:
        registry.histogram("h", value)
    return registry.snapshot()


def values(merged: MergedSamples) -> dict[str, tuple[float, tuple[int, ...]]]:
    return {each.name: (each.value, each.buckets) for each in merged.samples()}


def test_the_living_are_added_up() -> None:
    merged = MergedSamples()
    assert merged.samples() == []
    merged.tell("a", told(3, 7, 0.5, 5))
    merged.tell("b", told(2, 1, 1.5))
    assert values(merged) == {"c_total": (5, ()), "g": (1, ()), "h": (7, (1, 1, 1))}
    merged.tell("a", told(4, 8, 0.5, 5, 5))
    assert values(merged) == {"c_total": (6, ()), "g": (8, ()), "h": (12, (1, 1, 2))}, "it replaces what a told before"


def test_what_the_dead_have_counted_stays_and_their_gauges_go() -> None:
    merged = MergedSamples()
    merged.tell("a", told(3, 7, 0.5))
    merged.tell("b", told(2, None, 1.5))
    merged.end("a")
    merged.end("a")
    merged.end("nobody")
    assert values(merged) == {"c_total": (5, ()), "h": (2, (1, 1, 0))}
    merged.tell("c", told(1))
    merged.end("b")
    assert values(merged) == {"c_total": (6, ()), "h": (2, (1, 1, 0))}


def test_series_are_told_apart_by_labels_and_in_order() -> None:
    merged = MergedSamples()
    merged.tell("a", [Sample(name="x", kind="counter", labels=(("q", q),), value=1) for q in ("b", "a")])
    merged.tell("b", [Sample(name="x", kind="counter", labels=(("q", "b"),), value=5)])
    assert [(each.labels[0][1], each.value) for each in merged.samples()] == [("a", 1), ("b", 6)]


def test_a_gauge_is_that_of_the_one_who_told_last_however_often_the_same_is_told() -> None:
    merged = MergedSamples()
    old, new = told(0, 1), told(0, 2)
    merged.tell("a", old)
    merged.tell("b", new)
    merged.tell("a", old)
    assert values(merged) == {"g": (2, ())}
    merged.tell("a", told(0, 3))
    assert values(merged) == {"g": (3, ())}


def test_the_gauges_of_one_who_has_fallen_silent_go_until_it_tells_again() -> None:
    merged = MergedSamples()
    old = told(3, 7, 0.5)
    merged.tell("a", old)
    merged.withhold_gauges("a")
    merged.withhold_gauges("nobody")
    assert values(merged) == {"c_total": (3, ()), "h": (0.5, (1, 0, 0))}
    merged.tell("a", old)
    assert "g" not in values(merged), "the same once more is no news"
    merged.tell("b", told(1, 2))
    merged.withhold_gauges("a")
    assert values(merged) == {"c_total": (4, ()), "g": (2, ()), "h": (0.5, (1, 0, 0))}
    merged.tell("a", told(4, 8, 0.5))
    assert values(merged) == {"c_total": (5, ()), "g": (8, ()), "h": (0.5, (1, 0, 0))}
    merged.withhold_gauges("a")
    merged.end("a")
    assert values(merged) == {"c_total": (5, ()), "g": (2, ()), "h": (0.5, (1, 0, 0))}


def test_workers_that_die_again_and_again_with_other_labels_take_bounded_memory() -> None:
    merged = MergedSamples(limit=25)
    for generation in range(10):
        registry = MetricsRegistry()
        for number in range(10):
            registry.counter("x_total", labels={"id": f"{generation}.{number}"})
        registry.counter("c_total", 2)
        merged.tell(str(generation), registry.snapshot())
        merged.end(str(generation))
    found = merged.samples()
    assert len([each for each in found if each.name == "x_total"]) == 24
    assert {each.name: each.value for each in found if each.name != "x_total"} == {"c_total": 20, DROPPED: 76}
