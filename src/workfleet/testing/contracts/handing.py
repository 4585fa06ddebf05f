"""Contract of due schedules: handed out in bounded batches, to one process at a time, never lost to one that died."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from workfleet.model.handout import DueRequest, DueSchedules, Hold
from workfleet.ports.stores import Store

from .harness import ManualClock
from .schedules import NEXT, SLOT, fire, merged, only, schedule

BEFORE = 10_000
"""How long before SLOT the clock of a test begins."""


async def due(store: Store, *, limit: int = 100, ahead_ms: int = 0, hold_ms: int = 1_000) -> DueSchedules:
    return await store.schedules.claim_due(DueRequest(limit, ahead_ms, hold_ms))


async def names(store: Store, **said: Any) -> str:
    return " ".join(record.name for record in (await due(store, **said)).records)


@pytest.mark.asyncio
class TestDueSchedules:
    async def test_what_is_due_is_handed_out_once_the_first_ones_first(self, store: Store, clock: ManualClock) -> None:
        await store.schedules.merge([schedule("b"), schedule("a"), schedule("first", next_due_ms=SLOT - 1)])
        await store.schedules.put(schedule("later", from_code=False, next_due_ms=NEXT), replace=False)
        assert await due(store) == DueSchedules(await store.now_ms(), [], SLOT - 1)
        await clock.advance(BEFORE - 1)
        assert await names(store) == "first"
        await clock.advance(1)
        handed = await due(store)
        assert (handed.now_ms, [record.name for record in handed.records]) == (SLOT, ["a", "b"])
        assert [record.held_until_ms for record in handed.records] == [SLOT + 1_000] * 2
        assert handed.records == [await only(store, "a"), await only(store, "b")]
        assert handed.next_ms == SLOT - 1 + 1_000
        assert await due(store) == DueSchedules(SLOT, [], SLOT - 1 + 1_000)

    async def test_a_batch_is_bounded(self, store: Store, clock: ManualClock) -> None:
        await store.schedules.merge([schedule(name) for name in "edcba"])
        await clock.advance(BEFORE)
        first = await due(store, limit=2)
        assert ([record.name for record in first.records], first.next_ms) == (["a", "b"], SLOT)
        assert await names(store, limit=2) == "c d"
        assert await names(store, limit=0) == ""
        last = await due(store, limit=2)
        assert ([record.name for record in last.records], last.next_ms) == (["e"], SLOT + 1_000)
        assert await due(store) == DueSchedules(SLOT, [], SLOT + 1_000)

    async def test_ahead_of_time(self, store: Store, clock: ManualClock) -> None:
        await store.schedules.merge([schedule("a"), schedule("b", next_due_ms=SLOT + 1)])
        handed = await due(store, ahead_ms=BEFORE)
        assert [(record.name, record.held_until_ms) for record in handed.records] == [("a", SLOT + 1_000)]
        assert handed.next_ms == SLOT + 1

    async def test_who_died_with_them_loses_them_when_the_hold_ends(self, store: Store, clock: ManualClock) -> None:
        await store.schedules.merge([schedule("a")])
        await clock.advance(BEFORE)
        assert await names(store) == "a"
        await clock.advance(999)
        assert (await due(store)).next_ms == SLOT + 1_000
        await clock.advance(1)
        assert await names(store) == "a"
        assert [answer.kind for answer in await store.schedules.fire([fire("a")])] == ["fired"]

    async def test_many_that_ask_share_them(self, store: Store, clock: ManualClock) -> None:
        await store.schedules.merge([schedule(f"s{number:02}") for number in range(40)])
        await clock.advance(BEFORE)
        answers = await asyncio.gather(*(due(store, limit=3) for _ in range(15)))
        handed = [record.name for answer in answers for record in answer.records]
        assert sorted(handed) == [f"s{number:02}" for number in range(40)]

    async def test_a_fire_ends_the_hold(self, store: Store, clock: ManualClock) -> None:
        await store.schedules.merge([schedule("a")])
        await clock.advance(BEFORE)
        await due(store, hold_ms=900_000)
        await store.schedules.fire([fire("a")])
        assert (await only(store, "a")).held_until_ms is None
        assert (await due(store)).next_ms == NEXT
        await clock.advance(60_000)
        assert await names(store) == "a"

    async def test_the_last_fire_of_all_takes_it_out(self, store: Store, clock: ManualClock) -> None:
        await store.schedules.merge([schedule("a")])
        await clock.advance(BEFORE)
        await store.schedules.fire([fire("a", next_due_ms=None)])
        assert await due(store) == DueSchedules(SLOT, [], None)

    async def test_the_next_slot_is_held_for_its_jitter(self, store: Store, clock: ManualClock) -> None:
        await store.schedules.merge([schedule("a", held_until_ms=SLOT + 30)])
        assert (await only(store, "a")).held_until_ms == SLOT + 30
        await clock.advance(BEFORE + 29)
        assert (await due(store)).next_ms == SLOT + 30
        await clock.advance(1)
        assert await names(store) == "a"
        jittered = fire("a", held_until_ms=NEXT + 50, call="c")
        for _ in range(2):
            await store.schedules.fire([jittered])
            assert (await only(store, "a")).held_until_ms == NEXT + 50
            assert (await due(store, ahead_ms=60_000)).next_ms == NEXT + 50
        # What was lost changes nothing.
        await store.schedules.fire([fire("a", held_until_ms=NEXT + 99, call="other")])
        assert (await due(store)).next_ms == NEXT + 50

    async def test_a_hold_is_of_one_slot(self, store: Store, clock: ManualClock) -> None:
        await store.schedules.merge([schedule("a"), schedule("b")])
        await clock.advance(BEFORE)
        await store.schedules.hold([Hold("a", SLOT, SLOT + 5), Hold("b", SLOT - 1, SLOT + 5), Hold("nobody", SLOT, 1)])
        assert (await only(store, "a")).held_until_ms == SLOT + 5
        handed = await due(store)
        assert [record.name for record in handed.records] == ["b"]
        assert handed.next_ms == SLOT + 5
        await store.schedules.hold([Hold("a", SLOT, SLOT - 5)])
        assert (await only(store, "a")).held_until_ms is None
        assert await names(store) == "a"

    async def test_only_live_ones_are_handed_out(self, store: Store, clock: ManualClock) -> None:
        await store.schedules.merge([schedule("orphan")])
        await store.schedules.merge(
            [schedule("paused"), schedule("off", enabled=False), schedule("never", next_due_ms=None), schedule("on")]
        )
        await store.schedules.set_paused("paused", paused=True)
        await store.schedules.put(schedule("gone", from_code=False), replace=False)
        await store.schedules.remove("gone")
        await clock.advance(BEFORE)
        assert await names(store) == "on"
        await store.schedules.set_paused("paused", paused=False)
        assert await names(store) == "paused"
        code = [schedule("orphan"), schedule("off", fingerprint="f2")]
        assert [record.orphaned for record in await merged(store, code)] == [True, False, True, False, True]
        assert await names(store) == "off orphan"

    async def test_what_is_changed_is_handed_out_at_once(self, store: Store, clock: ManualClock) -> None:
        await store.schedules.merge([schedule("a"), schedule("same"), schedule("b")])
        await clock.advance(BEFORE)
        await due(store, hold_ms=60_000)
        await store.schedules.merge([schedule("a", fingerprint="f2"), schedule("same"), schedule("b")])
        assert await names(store, hold_ms=60_000) == "a"
        await store.schedules.put(schedule("b", next_due_ms=SLOT - 5), replace=True)
        assert await names(store, hold_ms=60_000) == "b"
        for paused in (True, False):
            await store.schedules.set_paused("same", paused=paused)
        assert await names(store) == "same"

    async def test_far_and_near_ones_together(self, store: Store, clock: ManualClock) -> None:
        year_9999 = 253_370_764_800_000
        await store.schedules.merge([schedule("far", next_due_ms=year_9999), schedule("near")])
        await clock.advance(BEFORE)
        assert await names(store) == "near"
        await store.schedules.fire([fire("near", next_due_ms=None)])
        assert (await due(store)).next_ms == year_9999
        assert (await only(store, "far")).next_due_ms == year_9999

    async def test_of_this_app_alone(self, opener: Any, store: Store, clock: ManualClock) -> None:
        other = await opener("other", clock)
        await other.schedules.merge([schedule("theirs")])
        await clock.advance(BEFORE)
        assert await due(store) == DueSchedules(SLOT, [], None)
        assert await names(other) == "theirs"
        await other.close()
