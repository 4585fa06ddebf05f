"""What only the metric store in PostgreSQL has to do."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import psutil
import psycopg
import pytest

from tests.observe.manual_clock import ManualClock
from tests.observe.rows import ask, row
from tests.outbox.postgres_server import PostgresServer, binaries
from workfleet.errors import ConfigError, StoreUnavailable
from workfleet.events import Event, MetricsDropped, MetricsUnavailable
from workfleet.observe.metrics import postgres
from workfleet.observe.metrics.flusher import MetricsFlusher
from workfleet.observe.metrics.model import CounterPoint
from workfleet.observe.metrics.postgres import PostgresMetricStore
from workfleet.observe.metrics.registry import DROPPED, MetricsRegistry

WRITER = """
import asyncio, sys
from workfleet.observe.metrics.model import MetricRow
from workfleet.observe.metrics.postgres import PostgresMetricStore
async def main():
    sys.stdin.read()
    store = PostgresMetricStore(sys.argv[1], "shop")
    for at_ms in range(40):
        rows = [MetricRow(name="x", kind="counter", labels=(("n", str(n)),), at_ms=at_ms, value=1) for n in range(4)]
        await store.write(rows)
        await store.prune(-1)
    await store.close()
asyncio.run(main())
"""


def server_pid(server: PostgresServer) -> int:
    process = server._process
    assert process is not None
    return process.pid


async def test_hosts_share_a_database_and_apps_do_not_meet(server: PostgresServer) -> None:
    url = server.database()
    stores = [PostgresMetricStore(url, app) for app in ("shop", "shop", "blog")]
    for number, store in enumerate(stores, 1):
        await store.write([row(1_000, number), row(5_000, number)])
    shop, _, blog = stores
    assert [(each.name, each.value) for each in await shop.totals()] == [("x", 6)]
    assert await shop.prune(2_000) == 2
    assert [[each.value for each in await store.totals()] for store in stores] == [[3], [3], [6]]
    await shop.prune(9_000)
    assert await shop.series() == []
    assert [each.at_ms for each in await blog.series()] == [5_000]
    for store in stores:
        await store.close()


async def test_processes_that_start_at_once_lose_nothing(server: PostgresServer) -> None:
    url = server.database()
    command = (sys.executable, "-c", WRITER, url)
    children = [subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    for child in children:  # all at once: the tables do not exist yet
        assert child.stdin is not None
        child.stdin.close()
        child.stdin = None
    said = await asyncio.gather(*(asyncio.to_thread(child.communicate) for child in children))
    assert [(child.returncode, error) for child, (_, error) in zip(children, said, strict=True)] == [(0, "")] * 4
    store = PostgresMetricStore(url, "shop")
    (series,) = await store.query(ask(to_ms=40, by=()))
    await store.close()
    assert series.points == (CounterPoint(at_ms=0, increase=640, rate=16_000),)


async def test_no_row_is_written_for_a_series_that_is_being_forgotten(server: PostgresServer) -> None:
    url = server.database()
    writer, pruner = PostgresMetricStore(url, "shop"), PostgresMetricStore(url, "shop")

    async def write() -> None:
        for at_ms in range(150):
            await writer.write([row(at_ms, 1)])

    async def prune() -> int:
        pruned = 0
        while not writing.done():
            pruned += await pruner.prune(1_000)
        return pruned + await pruner.prune(1_000)

    writing = asyncio.create_task(write())
    pruned = await prune()
    await writing
    assert pruned == 150
    with psycopg.connect(url) as connection:
        assert connection.execute("select count(*) from wf_metric_point").fetchone() == (0,)
        assert connection.execute("select count(*) from wf_metric_series").fetchone() == (0,)
    await writer.close()
    await pruner.close()


async def test_a_server_that_is_down_is_an_outage_and_comes_back(server: PostgresServer) -> None:
    found = binaries()
    assert found is not None
    own = PostgresServer(found)
    try:
        own.start()
        store = PostgresMetricStore(own.database(), "shop")
        await store.write([row(1_000, 1)])
        own.stop()
        with pytest.raises(StoreUnavailable):
            await store.write([row(2_000, 2)])
        with pytest.raises(StoreUnavailable, match="OperationalError"):
            await store.totals()
        own.start()
        await store.write([row(3_000, 4)])
        assert [each.value for each in await store.totals()] == [5], "what was refused was not written"
        await store.close()
    finally:
        own.remove()


@pytest.mark.full
async def test_a_server_that_hangs_and_one_that_is_away_block_nobody_and_are_caught_up_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(postgres, "_ANSWER_S", 0.5)
    found = binaries()
    assert found is not None
    own = PostgresServer(found)
    registry, told, clock = MetricsRegistry(), list[Event](), ManualClock(1_000)
    try:
        own.start()
        store = PostgresMetricStore(own.database(), "shop")
        flusher = MetricsFlusher(registry, store, clock, told.append, batch_size=7, buffer_limit=60)

        async def count(amount: float) -> bool:
            for number in range(20):
                registry.counter("x", amount, labels={"n": str(number)})
            clock.pass_time(1)
            return await flusher.flush()

        monkeypatch.setattr(postgres, "_ANSWER_S", 30)
        assert await count(1)
        monkeypatch.setattr(postgres, "_ANSWER_S", 0.5)
        for process in psutil.Process(server_pid(own)).children(recursive=True):
            process.suspend()
        hanging = asyncio.create_task(count(2))
        turns = 0
        while not hanging.done():
            turns += 1
            await asyncio.sleep(0.01)
        assert turns > 5, "the event loop goes on"
        assert not await hanging
        for process in psutil.Process(server_pid(own)).children(recursive=True):
            process.resume()
        own.stop()
        for amount in (4, 8, 16):
            assert not await count(amount)
        assert len(flusher._rows) == 60, "what was counted in an outage takes bounded memory"
        own.start()
        monkeypatch.setattr(postgres, "_ANSWER_S", 30)
        assert await count(32)
        kept = {each.name: each.value for each in await store.totals() if each.name == DROPPED}
        dropped = sum(event.count for event in told if isinstance(event, MetricsDropped))
        assert kept == {DROPPED: dropped}
        (series,) = await store.query(ask(by=(), step_ms=1_000))
        # The oldest that the buffer could not hold is gone; all the others have the time at which they were counted.
        points = {point.at_ms: point.increase for point in series.points if isinstance(point, CounterPoint)}
        assert points.pop(2_000) == 20
        assert points.pop(7_000) == 20 * 32
        assert points.pop(6_000) == 20 * 16
        assert sum(points.values()) < 20 * (2 + 4 + 8)
        assert [type(event) for event in told] == [MetricsUnavailable, MetricsDropped], "once an outage"
        await store.close()
    finally:
        own.remove()


async def test_two_hosts_add_up_counters_and_keep_what_is_their_own_apart(server: PostgresServer) -> None:
    url, clock = server.database(), ManualClock(50_000)
    for host, used in (("a", 1), ("b", 2)):
        registry, store = MetricsRegistry(), PostgresMetricStore(url, "shop")
        registry.counter("x", used)
        registry.gauge("queued", 10 * used, labels={"queue": "mail"})
        registry.gauge("memory", used, labels={"worker": "0", "host": host})
        registry.histogram("h", used)
        clock.pass_time(1)
        assert await MetricsFlusher(registry, store, clock, lambda event: None).flush()
        await store.close()
    reader = PostgresMetricStore(url, "shop")
    found = {(each.name, *(value for _, value in each.labels)): each.value for each in await reader.totals()}
    assert found == {("x",): 3, ("queued", "mail"): 20, ("memory", "a", "0"): 1, ("memory", "b", "0"): 2, ("h",): 3}
    await reader.close()


async def test_a_failed_write_writes_nothing(server: PostgresServer) -> None:
    url = server.database()
    store = PostgresMetricStore(url, "shop")
    await store.series()
    with psycopg.connect(url) as connection:
        connection.execute("alter table wf_metric_point add constraint no check (value <> 2)")
    with pytest.raises(StoreUnavailable, match="CheckViolation"):
        await store.write([row(1_000, 1), row(1_000, 2)])
    assert await store.totals() == []
    await store.close()


async def test_tables_of_a_newer_version_are_left_alone(server: PostgresServer) -> None:
    url = server.database()
    store = PostgresMetricStore(url, "shop")
    await store.write([row(1_000, 1)])
    await store.close()
    with psycopg.connect(url) as connection:
        connection.execute("update wf_metric_format set version = 7")
    later = PostgresMetricStore(url, "shop")
    with pytest.raises(StoreUnavailable, match=r"newer version \(format 7, this one knows 1\)\. Update workfleet"):
        await later.write([row(1_000, 1)])
    await later.close()


def test_a_url_that_cannot_be_read_is_not_repeated() -> None:
    with pytest.raises(ConfigError, match="WORKER_METRICS__URL: the PostgreSQL URL cannot be read") as caught:
        PostgresMetricStore("postgresql://user:pass%zz@host/db", "shop")
    assert "zz" not in str(caught.value)


def test_the_password_is_not_shown() -> None:
    store = PostgresMetricStore("postgresql://user:geheim@db.example:5433/metrics", "shop")
    assert store.shown == "postgresql://db.example:5433/metrics"
