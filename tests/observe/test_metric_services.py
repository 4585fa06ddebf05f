"""The loops of metrics: flush, clean-up, collection; and reading back what was measured."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.observe.manual_clock import ManualClock
from workfleet.errors import StoreUnavailable, UsageError
from workfleet.events import Event, MetricsDropped, MetricsUnavailable
from workfleet.observe.metrics.flusher import MetricsFlusher
from workfleet.observe.metrics.health import HealthCollector
from workfleet.observe.metrics.memory import MemoryMetricStore
from workfleet.observe.metrics.model import CounterPoint, MetricQuery, MetricRow
from workfleet.observe.metrics.process import ProcessCollector
from workfleet.observe.metrics.pruner import MetricsPruner
from workfleet.observe.metrics.registry import DROPPED, MetricsRegistry
from workfleet.observe.metrics.service import Metrics
from workfleet.ports.metrics import ProcessFacts


class Store(MemoryMetricStore):
    """A store that can be away, or hang, and tells what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.away = False
        self.hanging = False
        self.batches: list[list[float]] = []
        self.pruned: list[int] = []

    async def write(self, rows: Sequence[MetricRow]) -> None:
        if self.hanging:
            await asyncio.get_running_loop().create_future()
        if self.away:
            raise StoreUnavailable("m.db", "disk full")
        self.batches.append([row.value for row in rows])
        await super().write(rows)

    async def prune(self, before_ms: int) -> int:
        self.pruned.append(before_ms)
        if self.away:
            raise StoreUnavailable("m.db", "disk full")
        return await super().prune(before_ms)


class House:
    def __init__(self, **options: int) -> None:
        self.clock, self.store, self.registry = ManualClock(), Store(), MetricsRegistry()
        self.told: list[Event] = []
        self.flusher = MetricsFlusher(self.registry, self.store, self.clock, self.told.append, **options)

    def count(self, *amounts: float) -> None:
        for number, amount in enumerate(amounts):
            self.registry.counter(f"m{number}_total", amount)


@asynccontextmanager
async def serving(service: Any) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(service.serve())
    yield task
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_it_flushes_at_the_interval_and_once_more_at_the_end() -> None:
    house = House()
    async with serving(house.flusher):
        house.count(1)
        assert await house.clock.somebody_sleeps() == 10
        assert house.store.batches == []
        house.clock.pass_time(10)
        assert await house.clock.somebody_sleeps() == 10
        assert house.store.batches == [[1]]
        house.count(2)
    assert house.store.batches == [[1], [2]]
    assert house.told == []


async def test_rows_are_written_in_batches() -> None:
    house = House(batch_size=2)
    house.count(1, 2, 3, 4, 5)
    assert await house.flusher.flush()
    assert house.store.batches == [[1, 2], [3, 4], [5]]
    assert await house.flusher.flush()
    assert house.store.batches == [[1, 2], [3, 4], [5]]


async def test_a_failed_flush_is_kept_and_told_once() -> None:
    house = House()
    house.store.away = True
    house.count(1)
    assert not await house.flusher.flush()
    house.count(2)
    assert not await house.flusher.flush()
    assert house.told == [MetricsUnavailable(store="m.db", reason="disk full")]
    house.store.away = False
    house.count(4)
    assert await house.flusher.flush()
    assert house.store.batches == [[1, 2, 4]], "in order, and nothing twice"
    house.store.away = True
    house.count(8)
    assert not await house.flusher.flush()
    assert len(house.told) == 2, "a new outage is told anew"


async def test_what_the_buffer_cannot_hold_is_dropped_oldest_first_and_told() -> None:
    house = House(buffer_limit=3)
    house.store.away = True
    house.count(1, 2)
    await house.flusher.flush()
    house.count(3, 4, 5)
    assert not await house.flusher.flush()
    assert house.told[1:] == [MetricsDropped(count=2, error="store m.db: disk full")]
    house.store.away = False
    assert await house.flusher.flush()
    assert house.store.batches == [[3, 4, 5, 2]], "the last one is the counter of what was dropped"
    assert [each.value for each in house.registry.snapshot() if each.name == DROPPED] == [2]


async def test_gauges_are_written_when_they_have_changed_and_every_few_minutes() -> None:
    house = House(again_ms=60_000)
    for value in (1, 1, 2, 2, 2, 2, 2, 2, 2):
        house.registry.gauge("g", value)
        house.count(value)
        assert await house.flusher.flush()
        house.clock.pass_time(10)
    assert house.store.batches == [[1, 1], [1], [2, 2], [2], [2], [2], [2], [2], [2, 2]]


async def test_a_gauge_whose_row_was_dropped_is_written_anew() -> None:
    house = House(buffer_limit=1)
    house.store.away = True
    for value in (5, 5, 6):
        house.registry.gauge("g", value)
        house.registry.gauge("h", 1)
        await house.flusher.flush()
    house.store.away = False
    for name, value in (("g", 6), ("h", 1)):
        house.registry.gauge(name, value)
    assert await house.flusher.flush()
    kept = {each.name: each.value for each in await house.store.totals()}
    assert (kept["g"], kept["h"]) == (6, 1)


@pytest.mark.parametrize(("trouble", "why"), [("away", "store m.db: disk full"), ("hanging", "did not answer")])
async def test_what_the_last_flush_could_not_write_is_told(
    monkeypatch: pytest.MonkeyPatch, trouble: str, why: str
) -> None:
    monkeypatch.setattr("workfleet.observe.metrics.flusher.FINAL_FLUSH_S", 0.05)
    house = House()
    async with serving(house.flusher):
        await house.clock.somebody_sleeps()
        setattr(house.store, trouble, True)
        house.count(1, 2)
    dropped = house.told[-1]
    assert isinstance(dropped, MetricsDropped)
    assert dropped.count == 2
    assert why in dropped.error


async def test_a_long_outage_is_told_when_rows_begin_to_be_dropped_and_when_it_is_over() -> None:
    house = House(buffer_limit=2)
    house.store.away = True
    for amounts in ((1, 2, 3), (4, 5), (6,)):
        house.count(*amounts)
        assert not await house.flusher.flush()
    dropped = [event for event in house.told if isinstance(event, MetricsDropped)]
    assert [event.count for event in dropped] == [1], "not a line for every flush of an outage"
    house.store.away = False
    assert await house.flusher.flush()
    dropped = [event for event in house.told if isinstance(event, MetricsDropped)]
    total = sum(each.value for each in house.registry.snapshot() if each.name == DROPPED)
    assert [event.count for event in dropped] == [1, total - 1]
    assert dropped[1].error == "store m.db: disk full"


class Slow(Store):
    """A store whose write goes on when nobody waits for it any more, as that of a thread does."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go = asyncio.Event(), asyncio.Event()
        self.threads: list[asyncio.Task[None]] = []

    async def write(self, rows: Sequence[MetricRow]) -> None:
        async def work() -> None:
            self.begun.set()
            await self.go.wait()
            await Store.write(self, rows)

        self.threads.append(asyncio.create_task(work()))
        await asyncio.shield(self.threads[-1])


async def test_a_stop_in_the_middle_of_a_flush_writes_nothing_twice() -> None:
    house = House(batch_size=2)
    store = house.store = Slow()
    house.flusher = MetricsFlusher(house.registry, store, house.clock, house.told.append, batch_size=2)
    house.count(1, 2, 3)
    task = asyncio.create_task(house.flusher.serve())
    await house.clock.somebody_sleeps()
    house.clock.pass_time(10)
    await store.begun.wait()
    task.cancel()
    house.count(0, 0, 0, 4)
    store.go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.gather(*store.threads)
    assert sorted(value for batch in store.batches for value in batch if value) == [1, 2, 3, 4]
    assert house.told == []


async def test_the_clean_up_runs_at_once_and_hourly_and_survives_an_outage() -> None:
    house = House()
    pruner = MetricsPruner(house.store, house.clock, house.told.append)
    fortnight = 14 * 86_400_000
    start = house.clock.now_ms()
    async with serving(pruner):
        assert await house.clock.somebody_sleeps() == 3600
        house.store.away = True
        house.clock.pass_time(3600)
        assert await house.clock.somebody_sleeps() == 3600
    assert house.store.pruned == [start - fortnight, start + 3_600_000 - fortnight]
    assert house.told == [MetricsUnavailable(store="m.db", reason="disk full")]


async def test_a_clock_that_jumps_back_loses_nothing() -> None:
    house = House()
    house.count(1)
    assert await house.flusher.flush()
    now = house.clock.now_ms()
    house.clock._now_ms = now - 3_600_000
    house.count(2)
    assert await house.flusher.flush()
    async with serving(MetricsPruner(house.store, house.clock, house.told.append, max_age_ms=60_000)):
        await house.clock.somebody_sleeps()
    (series,) = await house.store.query(
        MetricQuery(name="m0_total", from_ms=now - 7_200_000, to_ms=now + 1, step_ms=3_600_000)
    )
    assert [point.increase for point in series.points if isinstance(point, CounterPoint)] == [2, 1]
    assert all(point.rate > 0 for point in series.points if isinstance(point, CounterPoint))


async def test_the_process_is_measured() -> None:
    house = House()
    facts = iter(
        [
            ProcessFacts(rss_bytes=1000, cpu_seconds=2.5, threads=3, open_fds=9),
            ProcessFacts(rss_bytes=800, cpu_seconds=4.0, threads=2),
        ]
    )
    collector = ProcessCollector(house.registry, lambda: next(facts), house.clock, labels={"worker": "1"})
    worker = (("worker", "1"),)
    async with serving(collector):
        assert await house.clock.somebody_sleeps() == 10
        assert {(row.name, row.labels): row.value for row in house.registry.drain(0)} == {
            ("workfleet_process_resident_memory_bytes", worker): 1000,
            ("workfleet_process_threads", worker): 3,
            ("workfleet_process_open_fds", worker): 9,
            ("workfleet_process_cpu_seconds_total", worker): 2.5,
        }
        house.clock.pass_time(10)
        await house.clock.somebody_sleeps()
    assert [row.value for row in house.registry.drain(0)] == [800, 2, 1.5]


async def test_what_health_said_last_is_told_and_nothing_of_what_is_gone() -> None:
    house = House()
    said: dict[str, str] = {}
    collector = HealthCollector(house.registry, lambda: said, house.clock, labels={"worker": "1"}, interval_ms=3_000)

    def told() -> dict[tuple[str, ...], float]:
        return {tuple(value for _, value in each.labels): each.value for each in house.registry.snapshot()}

    async with serving(collector):
        assert await house.clock.somebody_sleeps() == 3
        assert told() == {}, "nobody has looked yet"
        said.update({"disk": "healthy", "mine": "unhealthy"})
        house.clock.pass_time(3)
        await house.clock.somebody_sleeps()
        assert told() == {
            ("disk", "degraded", "1"): 0, ("disk", "healthy", "1"): 1, ("disk", "unhealthy", "1"): 0,
            ("mine", "degraded", "1"): 0, ("mine", "healthy", "1"): 0, ("mine", "unhealthy", "1"): 1,
        }  # fmt: skip
        del said["mine"]
        said["disk"] = "degraded"
        house.clock.pass_time(3)
        await house.clock.somebody_sleeps()
        assert told() == {
            ("disk", "degraded", "1"): 1, ("disk", "healthy", "1"): 0, ("disk", "unhealthy", "1"): 0,
        }  # fmt: skip


# Reading back


class Asked(MemoryMetricStore):
    def __init__(self) -> None:
        super().__init__()
        self.queries: list[MetricQuery] = []

    async def query(self, query: MetricQuery) -> Any:
        self.queries.append(query)
        return await super().query(query)


async def test_what_is_measured_can_be_queried() -> None:
    house = House()
    metrics = Metrics(house.registry, house.store, house.clock)
    metrics.define("photo_seconds", "histogram", buckets=[1, 2])
    for value in (0.5, 1.5):
        metrics.histogram("photo_seconds", value, labels={"size": "s"})
    metrics.counter("photos_total", 3)
    metrics.gauge("waiting", 2)
    assert [each.name for each in metrics.snapshot()] == ["photo_seconds", "photos_total", "waiting"]
    assert await metrics.query("photos_total") == []
    await house.flusher.flush()
    (photos,) = await metrics.query("photos_total", since="10s")
    assert [point.increase for point in photos.points if isinstance(point, CounterPoint)] == [3]
    (seconds,) = await metrics.query("photo_seconds", by=())
    assert (seconds.labels, seconds.kind, len(seconds.points)) == ({}, "histogram", 1)


async def test_ranges_and_steps() -> None:
    clock, store = ManualClock(), Asked()
    metrics = Metrics(MetricsRegistry(), store, clock)
    now = clock.now_ms() + 1
    noon = datetime(2027, 1, 1, 12, tzinfo=UTC)
    noon_ms = 1_798_804_800_000
    await metrics.query("x")
    await metrics.query("x", since=timedelta(minutes=5), step="30s", labels={"a": "b"}, by=["a"])
    await metrics.query("x", since="1h", until=noon, by=(), merge="max")
    await metrics.query("x", since=noon, until=noon + timedelta(seconds=1))
    assert store.queries == [
        MetricQuery(name="x", from_ms=now - 3_600_000, to_ms=now),
        MetricQuery(name="x", from_ms=now - 300_000, to_ms=now, step_ms=30_000, labels={"a": "b"}, by=("a",)),
        MetricQuery(name="x", from_ms=noon_ms - 3_600_000, to_ms=noon_ms, by=(), merge="max"),
        MetricQuery(name="x", from_ms=noon_ms, to_ms=noon_ms + 1000),
    ]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"since": "5"}, "'5' has no unit"),
        ({"since": "1h", "step": "soon"}, "'soon' is not a duration"),
        ({"since": datetime(2027, 1, 1)}, "has no time zone"),  # noqa: DTZ001 - that is the mistake
        ({"since": datetime(2999, 1, 1, tzinfo=UTC)}, "the time range is empty"),
    ],
)
async def test_senseless_ranges(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        await Metrics(MetricsRegistry(), MemoryMetricStore(), ManualClock()).query("x", **asked)
