"""A million jobs that wait or are delayed cost a worker neither speed nor memory."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import pytest

from workfleet.clock import SystemClock
from workfleet.model.jobs import JobRecord, JobState
from workfleet.ports.jobs import JobQuery
from workfleet.stores.sqlite.store import SqliteStore

from .conftest import starter
from .test_sqlite_processes import answer, answers

_MILLION = 1_000_000
_ROUNDS = 3
_NEXT_YEAR_MS = 365 * 86_400_000


async def fill(store: SqliteStore, count: int, prefix: str, **said: int) -> None:
    for first in range(0, count, 5_000):
        ids = range(first, min(first + 5_000, count))
        await store.jobs.enqueue([JobRecord(id=f"{prefix}{n}", queue="q", name="work", **said) for n in ids])


async def drained(path: Path) -> tuple[float, float]:
    """How many jobs a second another process settles and claims, and the bytes by which it grows."""
    async with starter(path) as start:
        child = await start("drain")
        rate, grown = await answer(child)  # type: ignore[misc]
        await answers(child)
        assert child.returncode == 0
    return rate, grown


@pytest.mark.full
@pytest.mark.parametrize("delay_ms", [0, _NEXT_YEAR_MS], ids=["waiting", "delayed"])
async def test_a_million(path: Path, delay_ms: int, record_property: Callable[[str, object], None]) -> None:
    with TemporaryDirectory(prefix="wf-") as folder:
        paths = {"empty": Path(folder) / "store.db", "million": path}
        stores = {
            name: await SqliteStore.open(where, app="shop", clock=SystemClock(), create=True)
            for name, where in paths.items()
        }
        await fill(stores["million"], _MILLION, "m", delay_ms=delay_ms)
        rates: dict[str, list[float]] = {"empty": [], "million": []}
        grown: list[float] = []
        for number in range(_ROUNDS):
            for name, store in stores.items():
                await fill(store, 20_000, f"r{number}-")
                rate, bytes_more = await drained(paths[name])
                rates[name].append(rate)
                grown.append(bytes_more)
        ratio = median(rates["million"]) / median(rates["empty"])
        figures = await looks(stores["million"])
        print(f"\nsettle and claim: {ratio:.2f} of the empty queue's {median(rates['empty']):.0f} jobs/s,", end=" ")
        print(f"{max(grown) / 1e6:.0f} MB more; {figures}")
        assert ratio >= 0.7
        assert max(grown) < 50_000_000
        assert figures["next_due_ms"] < 0.1
        assert figures["enqueue 500"] < 0.5
        assert max(figures.values()) < 3
        for store in stores.values():
            await store.close()


async def looks(store: SqliteStore) -> dict[str, float]:
    """Seconds that each look at the queue takes, the best of three."""
    batch = 0

    async def enqueue() -> None:
        nonlocal batch
        batch += 1
        await store.jobs.enqueue([JobRecord(id=f"b{batch}-{n}", queue="q", name="work") for n in range(500)])

    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "next_due_ms": lambda: store.jobs.next_due_ms(["q"]),
        "enqueue 500": enqueue,
        "counts": store.jobs.counts,
        "find newest": lambda: store.jobs.find(JobQuery()),
        "find failed": lambda: store.jobs.find(JobQuery(states=(JobState.FAILED,))),
        "find of another queue": lambda: store.jobs.find(JobQuery(queue="none")),
        "find a tag": lambda: store.jobs.find(JobQuery(tag="none")),
        "find a group": lambda: store.jobs.find(JobQuery(group="none")),
    }
    return {name: round(min([await timed(call) for _ in range(3)]), 4) for name, call in calls.items()}


async def timed(call: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await call()
    return time.perf_counter() - began
