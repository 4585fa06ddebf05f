"""What a pool counts of its calls: every end exactly, durations and waits of as many as it can afford; and spans."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.pools.conftest import MakePool
from tests.pools.support import begun, wait_until
from tests.pools.workers import Basic
from workfleet.clock import SystemClock
from workfleet.errors import CallTimeout, ChildDied, PoolBusy, RemoteError
from workfleet.pools.options import ChildSpec, PoolOptions
from workfleet.pools.pool import ProcessPool
from workfleet.pools.tally import Spread, Tally
from workfleet.ports.spans import CallTracing

BASIC = ChildSpec.of(Basic)


def of(pool: ProcessPool) -> Tally:
    assert pool.tally is not None
    return pool.tally


async def test_every_end_of_a_call_is_counted_by_its_method(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool(BASIC, queue_limit=0).pool
    await pool.wait_ready()
    for _ in range(3):
        await pool.call("add", (1,))
    with pytest.raises(RemoteError):
        await pool.call("raise_stop")
    assert [item async for item in pool.stream("numbers", (3,))] == [0, 1, 2]
    stream = pool.stream("numbers", (1_000,))
    await anext(stream)
    await stream.aclose()  # type: ignore[attr-defined]
    task = asyncio.create_task(pool.call("abegin", (str(tmp_path / "a"),)))
    await begun(tmp_path / "a")
    with pytest.raises(PoolBusy):
        await pool.call("pid")
    task.cancel()
    await asyncio.wait({task})
    with pytest.raises(ChildDied):
        await pool.call("die")
    await pool.wait_ready()
    with pytest.raises(CallTimeout):
        await pool.call("c_loop", (str(tmp_path / "b"),), timeout_ms=50)
    tally = of(pool)
    assert tally.ends() == {
        ("add", "completed"): 3, ("raise_stop", "raised"): 1, ("numbers", "completed"): 1, ("numbers", "cancelled"): 1,
        ("abegin", "cancelled"): 1, ("pid", "pool_busy"): 1, ("die", "child_died"): 1, ("c_loop", "call_timeout"): 1,
    }  # fmt: skip
    await wait_until(lambda: sum(tally.deaths.values()) == 2)
    assert tally.deaths == {"crashed": 1, "call_timeout": 1}
    runs = {method: sum(spread.counts) for method, spread in tally.runs.items() if method != "numbers"}
    assert runs == {"add": 3, "raise_stop": 1}, "what was killed has no duration, and what was refused no wait"
    assert sum(tally.waits.counts) == sum(tally.ends().values()) - 1


async def test_the_wait_for_a_child_and_the_run_are_told_apart(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool(BASIC).pool
    await pool.wait_ready()
    gate = tmp_path / "gate"
    first = asyncio.create_task(pool.call("wait_for", (str(gate),)))
    await wait_until(lambda: pool.stats().busy == 1)
    second = asyncio.create_task(pool.call("pid"))
    loop = asyncio.get_running_loop()
    await wait_until(lambda: pool.stats().queued == 1)
    queued = loop.time()
    await wait_until(lambda: loop.time() > queued + 0.2)
    opened = loop.time()
    gate.touch()
    await asyncio.gather(first, second)
    tally = of(pool)
    assert sum(tally.waits.sums) >= (opened - queued) * 1_000_000, "the second has waited for the first"
    assert sum(tally.runs["pid"].sums) < (opened - queued) * 1_000_000, "but has not run for so long"
    assert sum(tally.runs["wait_for"].sums) >= (opened - queued) * 1_000_000


def measured(tally: Tally, number: int, now: float) -> None:
    """A call that was made and begun a tenth of a millisecond later, and ran for 10 µs."""
    made = now if number % tally.stride == 0 else 0.0
    call: Any = SimpleNamespace(method="m", made=made, begun=made and now + 0.0001, micros=10)
    tally.completed(call)


def test_calls_in_a_rush_are_all_counted_and_measured_by_a_sample_that_stands_for_all() -> None:
    tally, calls = Tally(), 100_000
    for number in range(calls):
        measured(tally, number, 1 + number / 100_000)
    assert tally.ends() == {("m", "completed"): calls}
    assert tally.stride == 128
    assert sum(tally.runs["m"].counts) == pytest.approx(calls, rel=0.01)
    assert sum(tally.runs["m"].sums) == pytest.approx(calls * 10, rel=0.01)
    assert sum(tally.waits.counts) == pytest.approx(calls, rel=0.01)


def test_after_a_rush_all_are_measured_again() -> None:
    tally = Tally()
    for number in range(100_000):
        measured(tally, number, 1 + number / 100_000)
    before = sum(tally.runs["m"].counts)
    for number in range(128, 128 + 300):
        measured(tally, number, 10 + number)
    assert tally.stride == 1
    assert sum(tally.runs["m"].counts) == before + 127 + 300


def test_calls_that_are_no_rush_are_all_measured() -> None:
    tally = Tally()
    for number in range(5_000):
        measured(tally, number, 1 + number / 500)
    assert (tally.stride, sum(tally.runs["m"].counts), sum(tally.waits.counts)) == (1, 5_000, 5_000)


def test_a_distribution_is_kept_by_powers_of_two() -> None:
    spread = Spread()
    for micros in (0, 1, 2, 3, 4, 2**50):
        spread.add(micros, 1)
    spread.add(5, 10)
    assert [count for count in spread.counts if count] == [1, 1, 2, 11, 1]
    assert (sum(spread.sums), spread.sums[3], spread.counts[-1]) == (60 + 2**50, 54, 1)


async def test_without_metrics_nothing_is_counted(make_pool: MakePool) -> None:
    pool = make_pool(BASIC, metrics=False).pool
    assert await pool.call("add", (1,)) == 2
    assert [item async for item in pool.stream("numbers", (2,))] == [0, 1]
    with pytest.raises(ChildDied):
        await pool.call("die")
    assert pool.tally is None
    assert pool.stats().calls == 3


class Spans:
    """Notes the spans that are begun, and how they end."""

    def __init__(self) -> None:
        self.ended: list[tuple[str, dict[str, object], str]] = []

    @contextmanager
    def __call__(self, name: str, attributes: Mapping[str, object]) -> Iterator[Any]:
        told, error = dict(attributes), ""
        try:
            yield SimpleNamespace(note=told.__setitem__, trace=None)
        except BaseException as raised:
            error = type(raised).__name__
            raise
        finally:
            self.ended.append((name, told, error))


async def test_a_span_for_each_call_where_that_is_asked_for() -> None:
    for tracing in (True, False):
        spans = Spans()
        pool = ProcessPool(
            BASIC,
            PoolOptions(name="basic", size=1, tracing=tracing),
            clock=SystemClock(),
            publish=lambda event: None,
            trace=CallTracing(spans, lambda: None, "nowhere:to_be_found"),
        )
        try:
            pid = await pool.call("pid")
            with pytest.raises(ChildDied):
                await pool.call("die")
            assert [item async for item in pool.stream("numbers", (2,))] == [0, 1]
            (second,) = pool.stats().pids
        finally:
            await pool.stop(5_000)
        if not tracing:
            assert spans.ended == []
            continue

        def facts(method: str, pid: int) -> dict[str, object]:
            return {"workfleet.pool": "basic", "workfleet.method": method, "workfleet.child.pid": pid}

        assert spans.ended == [
            ("basic.pid", facts("pid", pid), ""),
            ("basic.die", facts("die", pid), "ChildDied"),
            ("basic.numbers", facts("numbers", second), ""),
        ]
