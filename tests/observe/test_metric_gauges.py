"""Gauges over time: how long a value holds, what several are together, and what of them is written at all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.observe.rows import ask, histogram, row
from workfleet.errors import UsageError
from workfleet.observe.metrics import pieces
from workfleet.observe.metrics.aggregate import Aggregation
from workfleet.observe.metrics.memory import MemoryMetricStore
from workfleet.observe.metrics.model import LASTS_MS, UNCHANGED_MS, GaugePoint, MetricQuery, MetricRow
from workfleet.observe.metrics.store import MetricStore
from workfleet.observe.metrics.unchanged import Unchanged

MINUTE = 60_000
JOBS = "workfleet_queue_jobs"


def jobs(at_ms: int, value: float, queue: str, state: str = "waiting") -> MetricRow:
    return row(at_ms, value, JOBS, "gauge", queue=queue, state=state)


def gauge(at_ms: int, value: float, **labels: str) -> MetricRow:
    return row(at_ms, value, "g", "gauge", **labels)


async def points(store: MetricStore, name: str, **rest: Any) -> dict[str, list[tuple[float, ...]]]:
    """At, last, mean, least and most by the labels' values."""
    return {
        " ".join(series.labels.values()): [
            (point.at_ms, point.last, point.mean, point.min, point.max)
            for point in series.points
            if isinstance(point, GaugePoint)
        ]
        for series in await store.query(ask(name, **rest))
    }


# Merging


async def test_merged_gauges_are_the_sum_at_each_instant(store: MetricStore) -> None:
    await store.write(
        [
            jobs(0, 5_000, "images"), jobs(0, 3, "mail"), jobs(0, 7, "images", "failed"), jobs(0, 0, "mail", "failed"),
            # A job fails: it is in one state at any time, so there are never 8 or 5,008 of them.
            jobs(5_000, 4_999, "images"), jobs(5_000, 8, "images", "failed"), jobs(6_000, 1, "mail"),
        ]
    )  # fmt: skip
    waiting = {"labels": {"state": "waiting"}, "to_ms": 10_000}
    assert await points(store, JOBS, by=(), **waiting) == {"": [(0, 5_000, 5_001.7, 5_000, 5_003)]}
    assert await points(store, JOBS, by=("queue",), **waiting) == {
        "images": [(0, 4_999, 4_999.5, 4_999, 5_000)], "mail": [(0, 1, 2.2, 1, 3)],
    }  # fmt: skip
    assert await points(store, JOBS, by=("queue",), to_ms=10_000) == {
        "images": [(0, 5_007, 5_007, 5_007, 5_007)], "mail": [(0, 1, 2.2, 1, 3)],
    }  # fmt: skip
    assert await points(store, JOBS, by=(), step_ms=5_000, **waiting) == {
        "": [(0, 5_003, 5_003, 5_003, 5_003), (5_000, 5_000, 5_000.4, 5_000, 5_002)]
    }


async def test_gauges_are_merged_as_asked(store: MetricStore) -> None:
    await store.write([gauge(0, 1, w="0"), gauge(0, 9, w="1"), gauge(0, 2, w="2"), gauge(5_000, 3, w="1")])
    found = {
        merge: (await points(store, "g", by=(), merge=merge, to_ms=10_000))[""]
        for merge in (None, "sum", "max", "min", "mean")
    }
    assert found == {
        None: [(0, 6, 9, 6, 12)],
        "sum": [(0, 6, 9, 6, 12)],
        "max": [(0, 3, 6, 3, 9)],
        "min": [(0, 1, 1, 1, 1)],
        "mean": [(0, 2, 3, 2, 4)],
    }
    with pytest.raises(UsageError, match="merge says how gauges become one: say by which labels, too"):
        await store.query(ask("g", merge="max"))


@pytest.mark.parametrize(
    ("name", "label", "merged"),
    [
        ("workfleet_queue_oldest_job_age_seconds", "queue", 30),
        ("workfleet_schedule_overdue_seconds", "schedule", 30),
        ("workfleet_schedule_last_fire_timestamp_seconds", "schedule", 30),
        ("workfleet_schedule_next_slot_timestamp_seconds", "schedule", 2),
        ("workfleet_health_status", "worker", 32),
    ],
)
async def test_ages_and_instants_are_not_summed(name: str, label: str, merged: float) -> None:
    store = MemoryMetricStore()
    await store.write([row(0, 2, name, "gauge", **{label: "a"}), row(0, 30, name, "gauge", **{label: "b"})])
    assert (await points(store, name, by=()))[""][0][1] == merged
    assert (await points(store, name, by=(), merge="sum"))[""][0][1] == 32, "whoever asks for it gets it"


# How long a value holds


async def test_a_value_holds_for_a_while_and_no_longer(store: MetricStore) -> None:
    start = 100 * MINUTE
    await store.write([gauge(start - LASTS_MS, 1, w="gone"), gauge(start - LASTS_MS + 1, 7, w="a")])
    await store.write([gauge(start - MINUTE, 2, w="b"), gauge(start + 4 * MINUTE, 2, w="b")])
    asked = {"from_ms": start, "to_ms": start + 30 * MINUTE}
    assert await points(store, "g", **asked) == {"a": [(start, 7, 7, 7, 7)], "b": [(start, 2, 2, 2, 2)]}
    found = await points(store, "g", step_ms=5 * MINUTE, by=(), **asked)
    assert found == {"": [(start, 2, pytest.approx(2 + 7 / 300_000), 2, 9), (start + 5 * MINUTE, 2, 2, 2, 2)]}, (
        "until four minutes and LASTS_MS are over"
    )
    assert await points(store, "g", from_ms=start + 10 * MINUTE, to_ms=start + 30 * MINUTE) == {}


def naive(rows: list[tuple[int, int, int]], query: MetricQuery) -> list[tuple[int, float, float, float, float]]:
    """The sum minute by minute."""
    steps: dict[int, list[int]] = {}
    for at_ms in range(query.from_ms, query.to_ms, MINUTE):
        known = {
            series: value
            for minute, series, value in sorted(rows, key=lambda row: row[0])
            if minute * MINUTE <= at_ms < minute * MINUTE + LASTS_MS
        }
        if known:
            step_ms = query.step_ms
            steps.setdefault(query.from_ms if step_ms is None else at_ms - at_ms % step_ms, []).append(
                sum(known.values())
            )
    return [(at, seen[-1], sum(seen) / len(seen), min(seen), max(seen)) for at, seen in steps.items()]


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 3), st.integers(-3, 3)), max_size=40),
    st.integers(6, 30),
    st.integers(1, 30),
    st.sampled_from([None, 1, 4, 7]),
)
def test_sums_by_steps_are_those_of_each_minute(
    rows: list[tuple[int, int, int]], start: int, length: int, step: int | None
) -> None:
    query = ask(
        "g", from_ms=start * MINUTE, to_ms=(start + length) * MINUTE, step_ms=step and step * MINUTE, by=()
    )  # fmt: skip
    answer = Aggregation(query)
    answer.add(
        gauge(minute * MINUTE, value, s=str(series))
        for minute, series, value in sorted(rows, key=lambda row: row[0])
        if start * MINUTE - LASTS_MS <= minute * MINUTE < query.to_ms
    )
    found = [point for series in answer.series() for point in series.points]
    assert [
        (point.at_ms, point.last, pytest.approx(point.mean), point.min, point.max)
        for point in found
        if isinstance(point, GaugePoint)
    ] == naive(rows, query)


# Long ranges


@pytest.fixture
def many_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a query about 100 seconds is read in 100 pieces."""
    monkeypatch.setattr(pieces, "_SERIES_MS", 1_000)
    monkeypatch.setattr(pieces, "_SHORTEST_MS", 1_000)


@pytest.mark.usefixtures("many_pieces")
@pytest.mark.parametrize("step_ms", [None, 7_000])
async def test_pieces_make_the_same_answer(store: MetricStore, step_ms: int | None) -> None:
    plain = MemoryMetricStore()
    for number in range(0, 100_000, 500):
        rows = [
            row(number, number / 500, w=str(number % 3)),
            row(number, number % 7_000, kind="gauge", w=str(number % 4)),
            histogram(number, 2, (1, 2), 0, 1, 1), histogram(number, 3, (2, 4), 0, 1, number),
        ]  # fmt: skip
        await store.write(rows)
        await plain.write(rows)
    for name in ("x", "h"):
        for by in (None, ()):
            asked = ask(name, from_ms=10_300, to_ms=90_100, step_ms=step_ms, by=by)
            assert await store.query(asked) == await plain.query(asked)


@pytest.mark.usefixtures("many_pieces")
@pytest.mark.parametrize("kind", ["gauge", "counter"])
async def test_whoever_writes_does_not_wait_for_a_long_query(store: MetricStore, kind: str) -> None:
    await store.write([row(at_ms, 1, "long", kind) for at_ms in range(0, 100_000, 100)])
    reading, written = asyncio.create_task(store.query(ask("long"))), 0
    while not reading.done():
        await store.write([row(1, 1)])
        written += 1
        await asyncio.sleep(0)
    await reading
    if not isinstance(store, MemoryMetricStore):
        assert written > 50, "after each piece"


# What is written


def test_a_gauge_that_stays_what_it_is_is_left_out_for_a_while() -> None:
    unchanged = Unchanged()

    def written(at_ms: int, value: float = 1, name: str = "g") -> bool:
        kept = unchanged.left_out([row(at_ms, value, name, "gauge"), row(at_ms, 0)])
        assert kept[-1] == row(at_ms, 0), "a counter's row is an increase: all count"
        return len(kept) == 2

    assert [written(at_ms) for at_ms in (0, 10_000, UNCHANGED_MS - 1, UNCHANGED_MS)] == [True, False, False, True]
    assert [written(UNCHANGED_MS + 1, value) for value in (2, 2, 1)] == [True, False, True]
    assert written(UNCHANGED_MS + 1, 1, "other")
    assert written(5, 1), "the clock was set back"
    unchanged.forget()
    assert written(6, 1)
    assert not written(7, 1)


def test_what_is_gone_takes_no_memory() -> None:
    unchanged = Unchanged(again_ms=1_000)
    for at_ms in range(0, 100_000, 100):
        unchanged.left_out([gauge(at_ms, 1, place=str(at_ms))])
    assert len(unchanged._known) == 10
