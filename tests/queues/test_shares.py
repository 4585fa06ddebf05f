"""How a worker's slots are shared among its queues."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from tests.queues.gates import Asking, gated
from tests.queues.rig import Rig, until
from workfleet.ports.jobs import Want
from workfleet.ports.stores import Store
from workfleet.queues.shares import wants_of


class Under:
    """A job store that counts how many settling calls are under way."""

    def __init__(self, jobs: Any) -> None:
        self._jobs, self._now, self.most = jobs, 0, 0
        self.sizes: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jobs, name)

    async def settle(self, *args: Any) -> Any:
        self.sizes.append(len(args[0]))
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            await asyncio.sleep(0.002)  # as long as a round trip
            return await self._jobs.settle(*args)
        finally:
            self._now -= 1


def test_without_a_total_every_queue_wants_what_it_has_free() -> None:
    assert wants_of([("a", 3), ("b", 0), ("c", 2)], {}, None, 7) == (Want("a", 3), Want("c", 2))


def test_a_total_that_is_enough_for_all_limits_nothing() -> None:
    assert wants_of([("a", 3), ("b", 2)], {"a": 9}, 5, 0) == (Want("a", 3), Want("b", 2))


def test_shares_are_by_weight() -> None:
    wants = wants_of([("a", 10), ("b", 10)], {"a": 3, "b": 1}, 8, 0)
    assert wants == (Want("a", 10, 6), Want("b", 10, 2))


def test_what_rounding_leaves_over_goes_round() -> None:
    first = Counter[str]()
    for turn in range(6):
        wants = wants_of([("a", 5), ("b", 5), ("c", 5)], {}, 1, turn)
        assert sum(want.share or 0 for want in wants) == 1
        first.update(want.queue for want in wants if want.share)
    assert first == {"a": 2, "b": 2, "c": 2}


def test_a_share_is_never_more_than_the_queue_has_free() -> None:
    wants = wants_of([("a", 1), ("b", 10)], {"a": 9, "b": 1}, 8, 0)
    assert {want.queue: want.share for want in wants} == {"a": 1, "b": 1}


def test_no_slot_no_want() -> None:
    assert wants_of([("a", 5)], {}, 0, 3) == ()
    assert wants_of([], {}, None, 3) == ()


async def test_a_worker_runs_no_more_than_its_total_by_weight(store: Store) -> None:
    jobs = Asking(store.jobs)
    rig = Rig(store, jobs=jobs, concurrency={"a": 10, "b": 10}, weights={"a": 3, "b": 1}, total=4)
    gate = gated(rig, "a", "b")
    ids = [*await rig.enqueue_many(["wait"] * 8, queue="a"), *await rig.enqueue_many(["wait"] * 8, queue="b")]
    async with rig:
        await until(lambda: sum(gate.inside.values()) == 4)
        inside = dict(gate.inside)
        gate.open.set()
        for job_id in ids:
            await rig.finished(job_id)
    assert inside == {"a": 3, "b": 1}
    assert sum(gate.most.values()) <= 8
    assert max(gate.most["a"], gate.most["b"]) <= 4


async def test_a_queue_that_has_nothing_leaves_its_share_to_the_others(rig: Rig) -> None:
    rig.concurrency, rig.weights, rig.total = {"a": 10, "b": 10}, {"a": 1, "b": 9}, 4
    gate = gated(rig, "a", "b")
    await rig.enqueue_many(["wait"] * 8, queue="a")
    async with rig:
        await until(lambda: gate.inside["a"] == 4)
        gate.open.set()
        await until(lambda: rig.exchange.totals["completed"] == 8)


async def test_the_store_works_on_one_half_while_the_other_runs(store: Store) -> None:
    jobs = Under(store.jobs)
    rig = Rig(store, jobs=jobs, concurrency={"q": 100})

    async def quick(_job: Any) -> None:
        return None

    rig.on(quick)
    await rig.enqueue_many(["quick"] * 1_000)
    async with rig:
        await until(lambda: rig.exchange.totals["completed"] == 1_000)
    assert jobs.sizes[:18] == [50] * 18


@pytest.mark.parametrize("calls", [1, 2])
async def test_calls_under_way_never_claim_more_than_the_slots(store: Store, calls: int) -> None:
    """Enough ends at once for a second call to be made while the first is under way."""
    jobs = Under(store.jobs)
    rig = Rig(store, jobs=jobs, concurrency={"q": 100}, calls=calls)
    inside = most = 0

    async def quick(_job: Any) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0)
        inside -= 1

    rig.on(quick)
    await rig.enqueue_many(["quick"] * 1_000)
    async with rig:
        await until(lambda: rig.exchange.totals["completed"] == 1_000)
        await until(lambda: rig.exchange.active == 0)
    assert most <= 100
    assert len(rig.board.notes) == 0
    assert jobs.most == calls
