"""Contract of `Fire.overlap` and `Fire.waits`, and of what a record keeps of slots that were not simply fired."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from workfleet.model.jobs import CANCELLED_UNRUN, UniqueRule
from workfleet.model.outcome import GIVE_BACK
from workfleet.model.schedules import NOTES_LIMIT, Fire, Fired, SlotNote
from workfleet.ports.jobs import JobQuery, TakeOver
from workfleet.ports.stores import Store

from .harness import CRASHED, FAILED, RAISED, ManualClock, claim, ended, finish, ids, job, state, states, stored
from .schedules import NEXT, SLOT, fire, only, schedule

KEY = "schedule a"
RULES = {
    "skip": UniqueRule(),
    "queue_one": UniqueRule("started", exclusive=True),
    "cancel_running": UniqueRule("started", on_conflict="replace", exclusive=True),
}
REASONS = {"skipped": "behind {run}", "coalesced": "into {run}", "late": "it was late", "missed": "nobody was there"}


def run(overlap: str, number: int, **said: Any) -> Fire:
    """The fire of the schedule's nth slot, whose run is named after it."""
    slot = SLOT + number * 60_000
    rule = RULES.get(overlap, UniqueRule())
    key = None if overlap == "allow" else KEY
    made = job(f"r{number}", schedule="a", slot_ms=slot, unique_key=key, unique=rule)
    said = {"job": made, "overlap": overlap, "reasons": REASONS, **said}
    return fire("a", said.pop("slot_ms", slot), **{"next_due_ms": slot + 60_000, **said})


async def fires(store: Store, *asked: Fire) -> list[Fired]:
    return await store.schedules.fire(asked)


@pytest.mark.asyncio
class TestQueueOne:
    async def test_one_waits_while_one_runs_and_further_slots_go_into_it(self, store: Store) -> None:
        await store.schedules.merge([schedule("a", overlap="queue_one")])
        assert await fires(store, run("queue_one", 0)) == [Fired("fired")]
        running = await claim(store)
        assert await fires(store, *(run("queue_one", n) for n in (1, 2, 3))) == [
            Fired("fired"), Fired("coalesced", "r1"), Fired("coalesced", "r1")
        ]  # fmt: skip
        assert await states(store, "r0 r1") == "active parked"
        record = await only(store, "a")
        assert (record.fired, record.coalesced, record.skipped, record.missed_count) == (2, 2, 0, 0)
        assert (record.last_outcome, record.last_reason, record.last_job_id) == ("coalesced", "into r1", "r1")
        assert (record.last_slot_ms, record.next_due_ms) == (SLOT + 180_000, SLOT + 240_000)
        assert await claim(store) == []
        await finish(store, running)
        (waited,) = await claim(store)
        assert (waited.id, waited.slot_ms) == ("r1", NEXT)
        assert await fires(store, run("queue_one", 4)) == [Fired("fired")]

    async def test_a_run_that_nobody_has_begun_takes_further_slots_too(self, store: Store) -> None:
        await store.schedules.merge([schedule("a")])
        asked = [run("queue_one", n) for n in range(3)]
        assert await fires(store, *asked) == [Fired("fired"), *[Fired("coalesced", "r0")] * 2]
        assert ids(await claim(store, 9)) == "r0"

    async def test_retries_are_waited_for(self, store: Store, clock: ManualClock) -> None:
        await store.schedules.merge([schedule("a")])
        await fires(store, run("queue_one", 0))
        await finish(store, await claim(store), RAISED)
        assert await fires(store, run("queue_one", 1), run("queue_one", 2)) == [
            Fired("fired"), Fired("coalesced", "r1")
        ]  # fmt: skip
        assert await states(store, "r0 r1") == "delayed parked"
        await clock.advance(5_000)
        again = await claim(store, 9)
        assert ids(again) == "r0"
        await finish(store, again, FAILED)
        assert ids(await claim(store, 9)) == "r1"

    async def test_a_dead_worker_frees_it_when_its_run_is_settled(self, store: Store, clock: ManualClock) -> None:
        await store.schedules.merge([schedule("a")])
        await fires(store, run("queue_one", 0))
        await claim(store)
        await fires(store, run("queue_one", 1))
        await clock.advance(40_000)
        (dead,) = await store.jobs.take_over(TakeOver("reaper", "taken", 30_000))
        await finish(store, [dead], CRASHED)
        again = await claim(store, 9)
        assert (ids(again), await state(store, "r1")) == ("r0", "parked")
        await finish(store, again)
        assert ids(await claim(store, 9)) == "r1"

    async def test_fifty_at_once_make_one_that_runs_and_one_that_waits(self, store: Store) -> None:
        await store.schedules.merge([schedule("a"), schedule("b")])
        await fires(store, run("queue_one", 0))
        await claim(store)
        calls = [fires(store, run("queue_one", 1, call=f"c{n}")) for n in range(50)]
        answers = [answer.kind for (answer,) in await asyncio.gather(*calls)]
        assert sorted(answers) == ["fired", *["lost"] * 49]
        assert len(await store.jobs.find(JobQuery())) == 2


@pytest.mark.asyncio
class TestCancelRunning:
    async def test_what_runs_is_asked_and_the_new_one_waits_for_its_end(self, store: Store) -> None:
        await store.schedules.merge([schedule("a", overlap="cancel_running")])
        await fires(store, run("cancel_running", 0))
        (running,) = await claim(store)
        assert await store.jobs.cancels([running.claim]) == [False]
        assert await fires(store, run("cancel_running", 1)) == [Fired("fired")]
        assert await store.jobs.cancels([running.claim]) == [True]
        assert await states(store, "r0 r1") == "active parked"
        assert await claim(store) == []
        await finish(store, [await stored(store, "r0")], RAISED)
        cancelled = await stored(store, "r0")
        assert (cancelled.state.value, cancelled.outcome) == ("failed", "cancelled")
        assert ids(await claim(store)) == "r1"

    async def test_it_wakes_who_waits_for_cancels(self, store: Store) -> None:
        await store.schedules.merge([schedule("a")])
        await fires(store, run("cancel_running", 0))
        (running,) = await claim(store)
        await store.jobs.cancels([running.claim])
        waiting = asyncio.create_task(store.jobs.wait_for_cancels(30_000))
        await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, no time
        await fires(store, run("cancel_running", 1))
        assert await asyncio.wait_for(waiting, 10)

    async def test_one_that_ignores_it_is_never_overlapped_and_the_newest_slot_is_next(self, store: Store) -> None:
        await store.schedules.merge([schedule("a")])
        await fires(store, run("cancel_running", 0))
        running = await claim(store)
        answers = await fires(store, *(run("cancel_running", n) for n in (1, 2, 3)))
        assert answers == [Fired("fired"), Fired("coalesced", "r1"), Fired("coalesced", "r1")]
        assert await claim(store, 9) == []
        await finish(store, running)
        (next_,) = await claim(store, 9)
        assert (next_.id, next_.slot_ms) == ("r1", SLOT + 180_000)
        record = await only(store, "a")
        assert (record.fired, record.coalesced, record.last_outcome) == (2, 2, "coalesced")

    async def test_a_run_that_waits_for_its_retry_fails_at_once(self, store: Store) -> None:
        await store.schedules.merge([schedule("a")])
        await fires(store, run("cancel_running", 0))
        await finish(store, await claim(store), RAISED)
        assert await fires(store, run("cancel_running", 1)) == [Fired("fired")]
        cancelled = await stored(store, "r0")
        assert (cancelled.state.value, cancelled.outcome, cancelled.failure) == (
            "failed", "cancelled", CANCELLED_UNRUN
        )  # fmt: skip
        assert ids(await claim(store, 9)) == "r1"

    async def test_so_does_one_that_was_given_back(self, store: Store) -> None:
        await store.schedules.merge([schedule("a")])
        await fires(store, run("cancel_running", 0))
        await finish(store, await claim(store), GIVE_BACK)
        await fires(store, run("cancel_running", 1))
        assert await states(store, "r0 r1") == "failed waiting"

    async def test_a_dead_workers_run_is_not_run_again(self, store: Store, clock: ManualClock) -> None:
        await store.schedules.merge([schedule("a")])
        await fires(store, run("cancel_running", 0))
        await claim(store)
        await fires(store, run("cancel_running", 1))
        await clock.advance(40_000)
        (dead,) = await store.jobs.take_over(TakeOver("reaper", "taken", 30_000))
        assert dead.cancel_asked
        await finish(store, [dead], CRASHED)
        assert await states(store, "r0 r1") == "failed waiting"
        assert ids(await claim(store, 9)) == "r1"

    async def test_a_triggered_run_is_cancelled_like_a_fired_one(self, store: Store) -> None:
        await store.schedules.merge([schedule("a")])
        await store.jobs.enqueue([job("triggered", unique_key=KEY, unique=RULES["queue_one"])])
        (running,) = await claim(store)
        assert await fires(store, run("cancel_running", 0)) == [Fired("fired")]
        assert await store.jobs.cancels([running.claim]) == [True]
        assert await state(store, "r0") == "parked"

    async def test_a_fire_that_is_lost_cancels_nothing(self, store: Store) -> None:
        await store.schedules.merge([schedule("a")])
        await fires(store, run("cancel_running", 0))
        (running,) = await claim(store)
        assert await fires(store, run("cancel_running", 0), run("cancel_running", 2)) == [Fired("lost")] * 2
        await store.schedules.set_paused("a", paused=True)
        assert await fires(store, run("cancel_running", 1)) == [Fired("lost")]
        assert await store.jobs.cancels([running.claim]) == [False]


@pytest.mark.asyncio
class TestOverlapChanged:
    @pytest.mark.parametrize("before", ["allow", "skip"])
    @pytest.mark.parametrize("after", ["queue_one", "cancel_running"])
    async def test_a_run_by_another_policy_is_not_overlapped(self, store: Store, before: str, after: str) -> None:
        await store.schedules.merge([schedule("a")])
        await fires(store, run(before, 0))
        (running,) = await claim(store)
        assert await fires(store, run(after, 1)) == [Fired("skipped", "r0")]
        assert await store.jobs.cancels([running.claim]) == [after == "cancel_running"]
        await store.jobs.settle([ended(running)])
        assert await fires(store, run(after, 2)) == [Fired("fired")]
        assert ids(await claim(store)) == "r2"


@pytest.mark.asyncio
class TestWaits:
    @pytest.mark.parametrize("overlap", ["skip", "queue_one", "cancel_running"])
    async def test_a_slot_that_waits_changes_nothing_while_a_run_is_unfinished(
        self, store: Store, overlap: str
    ) -> None:
        await store.schedules.merge([schedule("a")])
        first, second = run(overlap, 0, waits=True, call="1"), run(overlap, 1, waits=True, call="2")
        assert await fires(store, first) == [Fired("fired")]
        before = await only(store, "a")
        for _ in range(2):
            assert await fires(store, second) == [Fired("busy", "r0")]
        running = await claim(store)
        assert await fires(store, second, run(overlap, 2, waits=True)) == [Fired("busy", "r0"), Fired("lost")]
        assert await store.jobs.cancels([running[0].claim]) == [False]
        assert await only(store, "a") == before
        assert len(await store.jobs.find(JobQuery())) == 1
        await finish(store, running)
        assert await fires(store, second) == [Fired("fired")]
        assert await fires(store, second) == [Fired("fired")]  # the repeat of a call
        assert (await only(store, "a")).fired == 2

    async def test_a_triggered_run_is_waited_for(self, store: Store) -> None:
        await store.schedules.merge([schedule("a")])
        await store.jobs.enqueue([job("triggered", unique_key=KEY)])
        waiting = run("skip", 0, waits=True)
        assert await fires(store, waiting) == [Fired("busy", "triggered")]
        await finish(store, await claim(store))
        assert await fires(store, waiting) == [Fired("fired")]


@pytest.mark.asyncio
class TestNotes:
    async def test_a_slot_that_is_simply_fired_leaves_none(self, store: Store) -> None:
        await store.schedules.merge([schedule("a")])
        await fires(store, run("skip", 0))
        record = await only(store, "a")
        assert (record.notes, record.last_reason, record.late) == ((), None, 0)

    async def test_a_late_one_is_fired_and_late(self, store: Store) -> None:
        await store.schedules.merge([schedule("a")])
        late = run("skip", 3, slot_ms=SLOT, missed=3, late=True)
        assert await fires(store, late) == [Fired("fired")]
        now, record = await store.now_ms(), await only(store, "a")
        assert (record.fired, record.late, record.missed_count, record.last_outcome) == (1, 1, 3, "late")
        assert record.last_reason == "it was late"
        assert record.notes == (
            SlotNote("missed", SLOT, now, "nobody was there", 3),
            SlotNote("late", SLOT + 180_000, now, "it was late"),
        )

    async def test_skipped_and_coalesced_ones_say_behind_whom(self, store: Store) -> None:
        await store.schedules.merge([schedule("a")])
        await fires(store, run("skip", 0))
        await fires(store, run("skip", 1, late=True), run("skip", 2, job=None, skipped=4))
        now, record = await store.now_ms(), await only(store, "a")
        assert (record.fired, record.late, record.skipped, record.last_outcome) == (1, 0, 5, "skipped")
        assert record.notes == (
            SlotNote("skipped", NEXT, now, "behind r0"),
            SlotNote("skipped", NEXT + 60_000, now, "behind ", 4),
        )

    async def test_the_newest_are_kept(self, store: Store) -> None:
        await store.schedules.merge([schedule("a")])
        await fires(store, *(run("skip", n) for n in range(NOTES_LIMIT + 6)))
        notes = (await only(store, "a")).notes
        assert [note.slot_ms for note in notes] == [SLOT + n * 60_000 for n in range(6, NOTES_LIMIT + 6)]

    async def test_they_and_the_counts_outlive_a_changed_definition(self, store: Store) -> None:
        await store.schedules.merge([schedule("a")])
        await fires(store, run("queue_one", 0), run("queue_one", 1), run("queue_one", 2, late=True))
        before = await only(store, "a")
        await store.schedules.merge([schedule("a", fingerprint="f2")])
        record = await only(store, "a")
        assert (record.coalesced, record.late, record.notes) == (2, 0, before.notes)
        assert len(record.notes) == 2
        assert record.fingerprint == "f2"
