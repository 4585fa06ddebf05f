"""Contract of `ScheduleStore`: definitions, and fires that happen once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec import structs

from workfleet.model.jobs import JobState
from workfleet.model.schedules import Fire, Fired, ScheduleRecord
from workfleet.model.timing import Every
from workfleet.ports.jobs import PruneRule
from workfleet.ports.stores import Store

from .harness import ManualClock, claim, ended, ids, job, stored

SLOT = 1_700_000_010_000
NEXT = SLOT + 60_000


def schedule(name: str, **said: Any) -> ScheduleRecord:
    """A schedule every minute that is due at SLOT."""
    facts = {"timing": Every(60_000), "fingerprint": "f1", "job": job("template"), "next_due_ms": SLOT, **said}
    return ScheduleRecord(name=name, **facts)


def fire(name: str, slot_ms: int = SLOT, job_id: str | None = None, **said: Any) -> Fire:
    """A fire of a slot, with a job whose id derives from it."""
    run = job(job_id or f"{name}-{slot_ms}", schedule=name, slot_ms=slot_ms)
    return Fire(**{"schedule": name, "slot_ms": slot_ms, "next_due_ms": slot_ms + 60_000, "job": run, **said})


async def only(store: Store, name: str) -> ScheduleRecord:
    (record,) = await store.schedules.get([name])
    assert record is not None
    return record


async def merged(store: Store, defined: Iterable[ScheduleRecord]) -> list[ScheduleRecord]:
    """Merge, and give all that are there then."""
    await store.schedules.merge(defined)
    return await store.schedules.all()


@pytest.mark.asyncio
class TestDefinitions:
    async def test_new_ones_are_added_as_given(self, store: Store) -> None:
        full = schedule(
            "b", description="d", facts={"method": "x"}, enabled=False, overlap="allow", jitter_ms=5, missed="skip",
            job=job("t", payload=b'{"a":1}', tags=("t",), metadata={"k": "v"}),
        )  # fmt: skip
        plain = schedule("a")
        assert await merged(store, [full, plain]) == [plain, full]
        assert await store.schedules.all() == [plain, full]

    async def test_unchanged_ones_keep_all(self, store: Store) -> None:
        await store.schedules.merge([schedule("a")])
        await store.schedules.fire([fire("a")])
        await store.schedules.set_paused("a", paused=True)
        before = await store.schedules.all()
        assert await merged(store, [schedule("a", next_due_ms=SLOT + 7)]) == before
        assert (before[0].next_due_ms, before[0].fired, before[0].paused) == (NEXT, 1, True)

    async def test_changed_ones_are_replaced_but_keep_what_happened(self, store: Store, clock: ManualClock) -> None:
        await store.schedules.merge([schedule("a")])
        await store.schedules.fire([fire("a", missed=3)])
        await store.schedules.set_paused("a", paused=True)
        changed = schedule("a", fingerprint="f2", timing=Every(90_000), description="new", next_due_ms=SLOT + 5)
        (record,) = await merged(store, [changed])
        assert (record.timing, record.description, record.fingerprint) == (Every(90_000), "new", "f2")
        assert (record.next_due_ms, record.paused) == (SLOT + 5, True)
        assert (record.fired, record.skipped, record.missed_count) == (1, 0, 3)
        assert (record.last_slot_ms, record.last_fired_ms) == (SLOT, await store.now_ms())
        assert (record.last_job_id, record.last_outcome) == (f"a-{SLOT}", "fired")

    async def test_what_code_no_longer_defines_is_orphaned_until_it_is_back(self, store: Store) -> None:
        await store.schedules.merge([schedule("a"), schedule("b")])
        await store.schedules.put(schedule("runtime", from_code=False), replace=False)
        gone = await merged(store, [schedule("b")])
        assert [(record.name, record.orphaned) for record in gone] == [("a", True), ("b", False), ("runtime", False)]
        back = await merged(store, [schedule("a", next_due_ms=1)])
        assert [(record.name, record.orphaned) for record in back] == [("a", False), ("b", True), ("runtime", False)]
        assert back[0].next_due_ms == SLOT
        changed = await merged(store, [schedule("a"), schedule("b", fingerprint="f2", next_due_ms=1)])
        assert [(record.orphaned, record.next_due_ms) for record in changed[:2]] == [(False, SLOT), (False, 1)]

    async def test_a_merge_names_the_orphaned(self, store: Store) -> None:
        assert await store.schedules.merge([schedule("c"), schedule("a"), schedule("b")]) == []
        await store.schedules.put(schedule("runtime", from_code=False), replace=False)
        assert await store.schedules.merge([schedule("b")]) == ["a", "c"]
        assert await store.schedules.merge(iter([schedule("b"), schedule("c")])) == ["a"]
        assert await store.schedules.merge([]) == ["a", "b", "c"]

    async def test_thousands_are_merged(self, store: Store) -> None:
        defined = [schedule(f"s{number:04}") for number in range(2_000)]
        await store.schedules.put(schedule("runtime", from_code=False), replace=False)
        assert await store.schedules.merge(iter(defined)) == []
        assert await store.schedules.all() == [schedule("runtime", from_code=False), *defined]
        assert await store.schedules.merge(defined[:10]) == [each.name for each in defined[10:]]

    async def test_get_gives_what_is_there(self, store: Store) -> None:
        await store.schedules.merge([schedule("a"), schedule("b", description="d")])
        assert await store.schedules.get(["b", "nobody", "a"]) == [schedule("b", description="d"), None, schedule("a")]
        assert await store.schedules.get([]) == []

    async def test_pages_give_every_one(self, store: Store) -> None:
        defined = [schedule(f"s{number:03}") for number in range(700)]
        await store.schedules.merge(defined)
        found, pages, after = dict[str, ScheduleRecord](), 0, ""
        while after or not pages:
            records, after = await store.schedules.page(after, 50)
            found |= {record.name: record for record in records}
            pages += 1
        assert [found[name] for name in sorted(found)] == defined
        assert 7 <= pages <= 15
        await store.schedules.merge([])
        for record in defined:
            await store.schedules.remove(record.name)
        assert await store.schedules.page("", 50) == ([], "")

    async def test_code_takes_over_a_run_time_schedule(self, store: Store) -> None:
        await store.schedules.put(schedule("a", from_code=False, description="old"), replace=False)
        (record,) = await merged(store, [schedule("a", description="new")])
        assert (record.from_code, record.description) == (True, "new")

    async def test_put_adds_and_replaces_only_when_told(self, store: Store) -> None:
        first = schedule("a", from_code=False)
        assert await store.schedules.put(first, replace=False)
        await store.schedules.fire([fire("a")])
        second = schedule("a", from_code=False, fingerprint="f2", next_due_ms=SLOT + 9)
        assert not await store.schedules.put(second, replace=False)
        assert (await only(store, "a")).next_due_ms == NEXT
        assert await store.schedules.put(second, replace=True)
        record = await only(store, "a")
        assert (record.next_due_ms, record.fingerprint, record.fired, record.last_slot_ms) == (SLOT + 9, "f2", 1, SLOT)

    async def test_remove_leaves_its_jobs(self, store: Store) -> None:
        await store.schedules.merge([schedule("a")])
        await store.schedules.fire([fire("a")])
        assert await store.schedules.remove("a")
        assert not await store.schedules.remove("a")
        assert await store.schedules.all() == []
        assert (await stored(store, f"a-{SLOT}")).state is JobState.WAITING

    async def test_pause_and_resume(self, store: Store) -> None:
        await store.schedules.merge([schedule("a")])
        assert await store.schedules.set_paused("a", paused=True)
        assert await store.schedules.set_paused("a", paused=True)
        assert (await only(store, "a")).paused
        assert await store.schedules.set_paused("a", paused=False)
        assert not (await only(store, "a")).paused
        assert not await store.schedules.set_paused("nobody", paused=True)


@pytest.mark.asyncio
class TestFires:
    async def test_inserts_the_job_and_stores_the_next_slot(self, store: Store, clock: ManualClock) -> None:
        await store.schedules.merge([schedule("a")])
        await clock.advance(10_000)
        assert await store.schedules.fire([fire("a", missed=2)]) == [Fired("fired")]
        record = await only(store, "a")
        assert (record.next_due_ms, record.last_slot_ms, record.last_fired_ms) == (NEXT, SLOT, SLOT)
        assert (record.last_job_id, record.last_outcome) == (f"a-{SLOT}", "fired")
        assert (record.fired, record.skipped, record.missed_count) == (1, 0, 2)
        (run,) = await claim(store)
        assert (run.id, run.schedule, run.slot_ms, run.created_ms) == (f"a-{SLOT}", "a", SLOT, SLOT)

    async def test_a_slot_happens_once_however_many_fire_it(self, store: Store) -> None:
        await store.schedules.merge([schedule("a")])
        calls = [store.schedules.fire([fire("a", job_id=f"j{n}", call=f"c{n}")]) for n in range(20)]
        kinds = sorted(answer.kind for (answer,) in await asyncio.gather(*calls))
        assert kinds == ["fired"] + ["lost"] * 19
        assert len(await claim(store, 99)) == 1

    async def test_a_slot_that_is_not_due_next_is_lost(self, store: Store) -> None:
        await store.schedules.merge([schedule("a"), schedule("never", next_due_ms=None)])
        fires = [fire("a", SLOT - 1), fire("a", SLOT + 1), fire("never"), fire("nobody")]
        assert [answer.kind for answer in await store.schedules.fire(fires)] == ["lost"] * 4
        assert await claim(store, 9) == []
        assert (await only(store, "a")).next_due_ms == SLOT

    async def test_what_is_paused_disabled_or_orphaned_is_lost(self, store: Store) -> None:
        await store.schedules.merge([schedule("orphan")])
        await store.schedules.merge([schedule("paused"), schedule("disabled", enabled=False)])
        await store.schedules.set_paused("paused", paused=True)
        fires = [fire("paused"), fire("disabled"), fire("orphan")]
        assert [answer.kind for answer in await store.schedules.fire(fires)] == ["lost"] * 3
        assert await claim(store, 9) == []

    async def test_several_slots_of_one_schedule_in_a_call(self, store: Store) -> None:
        await store.schedules.merge([schedule("a"), schedule("b")])
        fires = [fire("a"), fire("a", NEXT), fire("b"), fire("a", SLOT)]
        assert [answer.kind for answer in await store.schedules.fire(fires)] == ["fired", "fired", "fired", "lost"]
        assert ids(await claim(store, 9)) == f"a-{SLOT} a-{NEXT} b-{SLOT}"

    async def test_the_last_fire_of_all_leaves_no_next_slot(self, store: Store) -> None:
        await store.schedules.merge([schedule("a")])
        await store.schedules.fire([fire("a", next_due_ms=None)])
        assert (await only(store, "a")).next_due_ms is None

    async def test_the_job_may_run_a_later_slot_than_the_one_compared(self, store: Store) -> None:
        await store.schedules.merge([schedule("a")])
        late = fire("a", job=job("late", slot_ms=SLOT + 120_000), next_due_ms=SLOT + 180_000, missed=2)
        assert await store.schedules.fire([late]) == [Fired("fired")]
        record = await only(store, "a")
        assert (record.last_slot_ms, record.missed_count, record.next_due_ms) == (SLOT + 120_000, 2, SLOT + 180_000)

    async def test_a_fire_without_a_job_only_counts_as_missed(self, store: Store) -> None:
        await store.schedules.merge([schedule("a")])
        assert await store.schedules.fire([fire("a", job=None, missed=4)]) == [Fired("missed")]
        record = await only(store, "a")
        assert (record.next_due_ms, record.last_slot_ms, record.last_outcome) == (NEXT, SLOT, "missed")
        assert (record.fired, record.skipped, record.missed_count) == (0, 0, 4)
        assert (record.last_fired_ms, record.last_job_id) == (None, None)

    async def test_a_fire_without_a_job_counts_as_skipped_when_it_says_so(self, store: Store) -> None:
        await store.schedules.merge([schedule("a")])
        assert await store.schedules.fire([fire("a", job=None, skipped=1)]) == [Fired("skipped")]
        record = await only(store, "a")
        assert (record.next_due_ms, record.last_slot_ms, record.last_outcome) == (NEXT, SLOT, "skipped")
        assert (record.fired, record.skipped, record.missed_count) == (0, 1, 0)
        assert (record.last_fired_ms, record.last_job_id) == (None, None)

    async def test_unless_running_skips_until_the_last_run_is_settled(self, store: Store) -> None:
        await store.schedules.merge([schedule("a")])
        first = f"a-{SLOT}"
        await store.schedules.fire([fire("a", overlap="skip")])
        assert await store.schedules.fire([fire("a", NEXT, overlap="skip")]) == [Fired("skipped", first)]
        (run,) = await claim(store)
        third, fourth = NEXT + 60_000, NEXT + 120_000
        assert await store.schedules.fire([fire("a", third, overlap="skip")]) == [Fired("skipped", first)]
        record = await only(store, "a")
        assert (record.fired, record.skipped, record.last_outcome) == (1, 2, "skipped")
        assert (record.last_slot_ms, record.last_job_id, record.next_due_ms) == (third, first, fourth)
        await store.jobs.settle([ended(run)])
        assert await store.schedules.fire([fire("a", fourth, overlap="skip")]) == [Fired("fired")]

    async def test_without_it_runs_may_overlap(self, store: Store) -> None:
        await store.schedules.merge([schedule("a")])
        await store.schedules.fire([fire("a")])
        assert await store.schedules.fire([fire("a", NEXT)]) == [Fired("fired")]

    async def test_a_last_run_that_was_pruned_is_over(self, store: Store, clock: ManualClock) -> None:
        await store.schedules.merge([schedule("a")])
        await store.schedules.fire([fire("a", overlap="skip")])
        await store.jobs.settle([ended(run) for run in await claim(store)])
        await store.jobs.prune([PruneRule(JobState.COMPLETED, count=0)])
        assert await store.schedules.fire([fire("a", NEXT, overlap="skip")]) == [Fired("fired")]

    async def test_an_unfinished_job_with_the_runs_unique_key_skips(self, store: Store) -> None:
        await store.schedules.merge([schedule("a")])
        await store.jobs.enqueue([job("triggered", unique_key="k")])
        keyed = job("run", unique_key="k", slot_ms=SLOT)
        assert await store.schedules.fire([fire("a", job=keyed)]) == [Fired("skipped", "triggered")]
        assert await store.jobs.get(["run"]) == [None]
        assert (await only(store, "a")).skipped == 1

    async def test_a_job_that_is_there_already_counts_as_fired(self, store: Store) -> None:
        await store.schedules.merge([schedule("a")])
        await store.jobs.enqueue([job(f"a-{SLOT}", payload=b"1")])
        assert await store.schedules.fire([fire("a")]) == [Fired("fired")]
        assert (await stored(store, f"a-{SLOT}")).payload == b"1"

    async def test_a_repeat_of_a_call_gives_the_first_answer(self, store: Store) -> None:
        await store.schedules.merge([schedule("a"), schedule("b"), schedule("c")])
        await store.jobs.enqueue([job("running", unique_key="k")])
        fires = [fire("a", call="1"), fire("b", call="2", job=None), fire("c", call="3", job=job("x", unique_key="k"))]
        first = await store.schedules.fire(fires)
        assert first == [Fired("fired"), Fired("missed"), Fired("skipped", "running")]
        before = await store.schedules.all()
        assert await store.schedules.fire(fires) == first
        assert await store.schedules.all() == before
        others = [structs.replace(again, call="other") for again in fires]
        assert [answer.kind for answer in await store.schedules.fire(others)] == ["lost"] * 3
