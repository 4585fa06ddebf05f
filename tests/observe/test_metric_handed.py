"""What the supervisor has counted: a worker keeps it as it is, and says so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.observe.manual_clock import ManualClock
from tests.observe.rows import row
from tests.observe.test_metric_services import Slow, Store
from workfleet.observe.metrics.handed import Handed, HandedRows


class House:
    """A service over a store, and whom it tells."""

    def __init__(self, store: Store) -> None:
        self.store, self.clock = store, ManualClock()
        self.kept: list[int] = []
        self.told = asyncio.Event()
        self.handed = Handed(asyncio.Queue(), self._hear)
        self.task = asyncio.create_task(HandedRows(self.handed, store, self.clock, again_ms=10_000).serve())

    def _hear(self, number: int) -> None:
        self.kept.append(number)
        self.told.set()

    def hand(self, number: int, *values: float) -> None:
        self.handed.parcels.put_nowait((number, [row(1, value, f"m{place}") for place, value in enumerate(values)]))

    async def told_of(self, count: int) -> None:
        async with asyncio.timeout(20):
            while len(self.kept) < count:
                self.told.clear()
                await self.told.wait()

    async def stop(self) -> None:
        self.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self.task


async def test_it_is_written_at_once_and_told() -> None:
    house = House(Store())
    house.hand(1, 5, 6)
    house.hand(2, 7)
    await house.told_of(2)
    assert (house.store.batches, house.kept) == ([[5, 6], [7]], [1, 2])
    await house.stop()
    assert house.kept == [1, 2]


async def test_what_the_store_refuses_is_tried_again_and_told_only_then() -> None:
    house = House(Store())
    house.store.away = True
    house.hand(1, 5)
    assert await house.clock.somebody_sleeps() == 10
    house.hand(2, 6)
    assert house.kept == []
    house.store.away = False
    house.clock.pass_time(10)
    await house.told_of(2)
    assert (house.store.batches, house.kept) == ([[5], [6]], [1, 2])
    await house.stop()


async def test_a_stop_in_the_middle_of_a_write_writes_nothing_twice_and_what_is_left_too() -> None:
    store = Slow()
    house = House(store)
    house.hand(1, 5)
    house.hand(2, 6)
    await store.begun.wait()
    house.task.cancel()
    store.go.set()
    with pytest.raises(asyncio.CancelledError):
        await house.task
    await asyncio.gather(*store.threads)
    assert (store.batches, house.kept) == ([[5], [6]], [1, 2])


@pytest.mark.parametrize("trouble", ["away", "hanging"])
async def test_a_stop_waits_for_no_store_that_is_out_of_order(monkeypatch: pytest.MonkeyPatch, trouble: Any) -> None:
    monkeypatch.setattr("workfleet.observe.metrics.handed.FINAL_FLUSH_S", 0.05)
    house = House(Store())
    setattr(house.store, trouble, True)
    house.hand(1, 5)
    house.hand(2, 6)
    await asyncio.sleep(0)
    async with asyncio.timeout(20):
        await house.stop()
    assert (house.store.batches, house.kept) == ([], [])
