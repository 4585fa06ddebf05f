"""The loop that fires what is due: every slot once in the fleet, whatever the clocks, outages and overlaps."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tests.schedules.rig import DAY, HOUR, MINUTE, NOON, SECOND, Process, record, turns, until
from workfleet.clock import SkewedClock
from workfleet.events import ScheduleFired, ScheduleMissed, ScheduleSkipped, ScheduleUnusable, StoreTrouble
from workfleet.model.jobs import JobState
from workfleet.model.timing import CronTiming, Every
from workfleet.schedules.due import find_due, fire_of
from workfleet.schedules.handed import AHEAD_MS, HOLD_MS, LEAD_MS
from workfleet.stores.open import open_store
from workfleet.testing.clock import TestClock
from workfleet.testing.contracts.harness import pulse


async def test_a_slot_is_fired_when_it_is_due_and_the_next_wait_is_known() -> None:
    process = await Process.on_memory(NOON - 5 * SECOND)
    await process.store.schedules.merge([record()])
    assert await process.scheduler.fire_due() == 5 * SECOND - LEAD_MS
    process.at(NOON - 1)
    assert await process.scheduler.fire_due() == 1
    process.at(NOON)
    assert await process.scheduler.fire_due() == 0
    assert await process.scheduler.fire_due() == 10_000 - 1  # a poll after it has asked
    (job,) = await process.jobs()
    assert (job.queue, job.name, job.schedule, job.slot_ms, job.state) == (
        "shop-schedules", "s", "s", NOON, JobState.WAITING
    )  # fmt: skip
    (fired,) = process.told(ScheduleFired)
    assert (fired.schedule, fired.slot_ms, fired.late_ms, fired.job_id) == ("s", NOON, 0, job.id)
    assert process.woken == 1
    (stored,) = await process.store.schedules.all()
    assert (stored.next_due_ms, stored.last_slot_ms, stored.fired, stored.missed_count) == (
        NOON + 15 * MINUTE, NOON, 1, 0
    )  # fmt: skip


async def test_two_processes_with_clocks_ten_seconds_apart_fire_every_slot_once(tmp_path: Path) -> None:
    """Each judges by its own clock on SQLite, and jobs are much shorter than the difference."""
    clock = TestClock(NOON - MINUTE)
    url = f"sqlite:///{tmp_path}/jobs.db"
    clocks = (SkewedClock(clock, 0), SkewedClock(clock, 10_000))
    processes = [Process(await open_store(url, app="shop", clock=own, create=True), own) for own in clocks]
    for process in processes:
        await process.store.schedules.merge(
            [record(when=Every(MINUTE)), record("jittered", Every(MINUTE), jitter_ms=DAY)]
        )
    draw = random.Random(7)
    for _ in range(300):
        clock.move_to(clock.now_ms() + draw.choice((SECOND, 2 * SECOND, 5 * SECOND)))
        for process in processes:
            if draw.random() < 0.3:  # each is busy with something else most of the time
                await process.scheduler.fire_due()
                await process.run_all()
    for process in processes:
        await process.scheduler.fire_due()
    jobs = await processes[0].jobs()
    last = clock.now_ms() + 10_000
    for name in ("s", "jittered"):
        slots = [job.slot_ms for job in jobs if job.schedule == name]
        assert slots == sorted(set(slots)), name
        wanted = list(range(NOON, last + 1, MINUTE))
        assert slots == wanted or (name == "jittered" and slots == wanted[:-1]), name
        fired = [e.slot_ms for process in processes for e in process.told(ScheduleFired) if e.schedule == name]
        assert sorted(fired) == slots
    assert all(process.told(ScheduleFired) for process in processes), "one of them did everything: no test of two"
    assert [e for process in processes for e in process.told(ScheduleMissed)] == []
    for process in processes:
        await process.store.close()


@pytest.mark.parametrize(
    ("missed", "slots", "fired", "count"),
    [("once", [45], 1, 3), ("skip", [], 0, 4)],
)
async def test_what_was_missed_is_run_late_or_left_out_and_told(
    missed: Any, slots: list[int], fired: int, count: int
) -> None:
    process = await Process.on_memory(NOON)
    await process.store.schedules.merge([record(missed=missed)])
    process.at(NOON + 50 * MINUTE)
    await process.scheduler.fire_due()
    assert await process.slots() == slots
    (told,) = process.told(ScheduleMissed)
    assert (told.schedule, told.slot_ms, told.count) == ("s", NOON, count)
    assert [event.late_ms for event in process.told(ScheduleFired)] == [5 * MINUTE] * fired
    (stored,) = await process.store.schedules.all()
    assert (stored.missed_count, stored.fired, stored.next_due_ms) == (count, fired, NOON + HOUR)
    assert stored.last_slot_ms == (NOON + 45 * MINUTE if slots else NOON)


# Overlap


async def test_a_run_that_is_not_finished_skips_the_slot_and_says_so() -> None:
    process = await Process.on_memory()
    await process.store.schedules.merge([record(), record("allowed", overlap="allow")])
    await process.scheduler.fire_due()
    running = {job.schedule: job for job in await process.claim()}
    for number in (1, 2):
        process.at(NOON + number * 15 * MINUTE)
        await process.scheduler.fire_due()
    skipped = process.told(ScheduleSkipped)
    assert [(e.schedule, e.slot_ms) for e in skipped] == [("s", NOON + 15 * MINUTE), ("s", NOON + 30 * MINUTE)]
    assert skipped[0].reason == f"its run {running['s'].id} is not finished"
    stored = {record.name: record for record in await process.store.schedules.all()}
    assert (stored["s"].fired, stored["s"].skipped, stored["s"].last_outcome) == (1, 2, "skipped")
    assert (stored["allowed"].fired, stored["allowed"].skipped) == (3, 0)
    await process.settle([running["s"]])
    process.at(NOON + 45 * MINUTE)
    await process.scheduler.fire_due()
    assert len([job for job in await process.jobs() if job.schedule == "s"]) == 2


async def test_waiting_for_a_retry_counts_as_running() -> None:
    process = await Process.on_memory()
    await process.store.schedules.merge([record()])
    await process.scheduler.fire_due()
    await process.settle(await process.claim(), JobState.DELAYED)
    process.at(NOON + 15 * MINUTE)
    await process.scheduler.fire_due()
    assert len(process.told(ScheduleSkipped)) == 1


async def test_triggered_and_started_runs_overlap_like_fired_ones() -> None:
    process = await Process.on_memory(NOON - MINUTE)
    await process.store.schedules.merge([record()])
    triggered = await process.schedules.trigger("s")
    assert triggered.accepted
    (stored,) = await process.store.schedules.all()
    assert await process.start([stored], worker="w1") == 0
    process.at(NOON)
    await process.scheduler.fire_due()
    (skipped,) = process.told(ScheduleSkipped)
    assert triggered.ref is not None
    assert skipped.reason == f"its run {triggered.ref.id} is not finished"
    await process.run_all()
    assert await process.start([stored], worker="w1") == 1
    again = await process.schedules.trigger("s")
    assert (again.accepted, again.reason) == (
        False, f"the schedule 's' is running already (job {(await process.jobs())[-1].id})"
    )  # fmt: skip


# Outages and records that cannot be used


@pytest.mark.parametrize("fault", ["before", "after"])
async def test_a_fire_that_is_not_answered_happens_once_and_is_told_once(fault: str) -> None:
    process = await Process.on_memory()
    await process.store.schedules.merge([record(), record("t")])
    process.fires.fault = fault
    serving = asyncio.create_task(process.scheduler.serve())
    await until(lambda: process.told(StoreTrouble))
    for _ in range(3):  # the outage lasts for some tries
        process.at(process.clock.now_ms() + SECOND)
        await turns()
    process.fires.fault = None
    process.at(process.clock.now_ms() + SECOND)
    await until(lambda: len(process.told(ScheduleFired)) == 2)
    serving.cancel()
    assert [event.schedule for event in process.told(ScheduleFired)] == ["s", "t"]
    assert await process.slots() == [0, 0]
    assert len(process.told(StoreTrouble)) == 1
    assert process.woken == 2
    assert [stored.fired for stored in await process.store.schedules.all()] == [1, 1]


async def test_an_unanswered_fire_that_another_process_did_meanwhile_is_not_told() -> None:
    process = await Process.on_memory()
    other = Process(process.store, process.clock)
    await process.store.schedules.merge([record()])
    process.fires.fault = "before"
    serving = asyncio.create_task(process.scheduler.serve())
    await until(lambda: process.told(StoreTrouble))
    assert await other.scheduler.fire_due() == AHEAD_MS + HOLD_MS - LEAD_MS  # the first one has it, for a moment
    process.at(NOON + AHEAD_MS + HOLD_MS - LEAD_MS)
    await other.scheduler.fire_due()
    process.fires.fault = None
    process.at(process.clock.now_ms() + SECOND)
    await turns(50)
    serving.cancel()
    assert (len(other.told(ScheduleFired)), len(process.told(ScheduleFired))) == (1, 0)
    assert await process.slots() == [0]


async def test_one_record_that_cannot_be_used_stops_no_other() -> None:
    process = await Process.on_memory()
    broken = record("broken", CronTiming("0 3 * * *", timezone="Europe/Atlantis"))
    newer = record("newer", CronTiming("@whenever"), jitter_ms=5)
    await process.store.schedules.merge([broken, newer, record()])
    assert await process.scheduler.fire_due() == 0
    assert await process.scheduler.fire_due() == 10_000
    assert [job.schedule for job in await process.jobs()] == ["s"]
    told = process.told(ScheduleUnusable)
    assert [event.schedule for event in told] == ["newer", "broken"]  # once each
    assert "Europe/Atlantis" in told[1].error
    await process.store.schedules.merge([structs.replace(broken, fingerprint="g"), newer, record()])
    await process.scheduler.fire_due()
    assert [event.schedule for event in process.told(ScheduleUnusable)] == ["newer", "broken", "broken"]


# The loop


async def test_the_loop_waits_for_the_slot_and_hears_of_a_new_schedule() -> None:
    process = await Process.on_memory(NOON - 8 * SECOND)
    serving = asyncio.create_task(process.scheduler.serve())
    await turns()
    await process.store.schedules.put(record("late", due=NOON - 3 * SECOND), replace=False)
    await turns()
    process.at(NOON - 3 * SECOND)
    await until(lambda: process.told(ScheduleFired))
    await process.store.schedules.put(record("soon", due=NOON), replace=False)
    await turns()
    process.at(NOON - 1)
    await turns()
    assert len(process.told(ScheduleFired)) == 1
    process.at(NOON)
    await until(lambda: len(process.told(ScheduleFired)) == 2)
    serving.cancel()
    assert [event.late_ms for event in process.told(ScheduleFired)] == [0, 0]


async def test_many_schedules_fire_in_one_go() -> None:
    process = await Process.on_memory()
    await process.store.schedules.merge([record(f"s{number:03}") for number in range(250)])
    await process.scheduler.fire_due()
    assert [event.schedule for event in process.told(ScheduleFired)] == [f"s{number:03}" for number in range(250)]


async def test_paused_orphaned_and_disabled_schedules_do_not_fire() -> None:
    process = await Process.on_memory()
    await process.store.schedules.merge(
        [record("orphan"), record("off", enabled=False), record("paused"), record("on")]
    )
    await process.store.schedules.merge([record("off", enabled=False), record("paused"), record("on")])
    await process.store.schedules.set_paused("paused", paused=True)
    assert await process.scheduler.fire_due() == 0
    assert await process.scheduler.fire_due() == 10_000  # what is due and does not fire keeps nobody busy
    assert [job.schedule for job in await process.jobs()] == ["on"]
    await process.store.schedules.set_paused("paused", paused=False)
    process.at(NOON + 20 * MINUTE)
    await process.scheduler.fire_due()
    missed = process.told(ScheduleMissed)
    assert [(event.schedule, event.count) for event in missed] == [("paused", 1)]


async def test_an_unchanged_definition_keeps_its_phase_and_a_changed_one_is_anchored_anew() -> None:
    process = await Process.on_memory()
    await process.store.schedules.merge([record()])
    await process.scheduler.fire_due()
    later = NOON + 7 * MINUTE
    process.at(later)
    # What a restart computes for its definitions: the first slot from now.
    await process.store.schedules.merge([record(due=NOON + HOUR)])
    (stored,) = await process.store.schedules.all()
    assert (stored.next_due_ms, stored.fired) == (NOON + 15 * MINUTE, 1)
    await process.store.schedules.merge([record(due=NOON + HOUR, fingerprint="changed")])
    (stored,) = await process.store.schedules.all()
    assert (stored.next_due_ms, stored.fired, stored.last_slot_ms) == (NOON + HOUR, 1, NOON)


async def test_a_fire_of_a_slot_that_was_re_anchored_meanwhile_is_lost() -> None:
    process = await Process.on_memory()
    here = record()
    await process.store.schedules.merge([here])
    due = find_due(here, NOON)
    assert due is not None
    await process.store.schedules.merge([record(due=NOON + HOUR, fingerprint="changed")])
    assert [fired.kind for fired in await process.store.schedules.fire([fire_of(here, due, "shop")])] == ["lost"]
    assert await process.jobs() == []


# At start


@pytest.mark.parametrize("lost", [False, True])
async def test_a_change_made_elsewhere_is_seen_at_once_or_at_the_next_pulse(
    lost: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lost:
        monkeypatch.setattr("workfleet.stores.sqlite.bell.Bell.ring", lambda _bell, _topics: None)
    clock = TestClock(NOON)
    url = f"sqlite:///{tmp_path}/jobs.db"
    one, other = [Process(await open_store(url, app="shop", clock=clock, create=True), clock) for _ in range(2)]
    await pulse(other.store)
    serving = asyncio.create_task(other.scheduler.serve())
    await until(lambda: len(clock.sleepers) == 1)  # it has looked, and waits for a poll of ten seconds
    await one.store.schedules.put(record(due=NOON + SECOND), replace=False)
    if lost:
        for _ in range(5):
            await asyncio.sleep(0.01)
        clock.move_to(NOON + 2 * SECOND)
        await turns(50)
        assert other.told(ScheduleFired) == []
        await pulse(other.store)
    else:
        await until(lambda: [sleeper.due_ms for sleeper in clock.sleepers] == [NOON + SECOND - LEAD_MS])
        clock.move_to(NOON + SECOND)
    await until(lambda: other.told(ScheduleFired))
    assert [(event.schedule, event.slot_ms) for event in other.told(ScheduleFired)] == [("s", NOON + SECOND)]
    serving.cancel()
    for process in (one, other):
        await process.store.close()
