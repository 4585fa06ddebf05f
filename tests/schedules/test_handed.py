"""How processes share what is due: each slot is one process's work, and nobody's for long when that one dies."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from msgspec import structs

from tests.schedules.rig import HOUR, MINUTE, NOON, SECOND, Process, record, turns, until
from workfleet.events import ScheduleFired, ScheduleSkipped, ScheduleUnusable
from workfleet.model.handout import Hold
from workfleet.model.jobs import JobRecord, JobState
from workfleet.model.missed import CatchUp
from workfleet.model.timing import At, CronTiming, Every
from workfleet.schedules.due import fire_time_ms
from workfleet.schedules.handed import AHEAD_MS, BUSY_MS, HOLD_MS, LEAD_MS, UNUSABLE_MS
from workfleet.stores.open import open_store
from workfleet.testing.contracts.harness import ManualClock


class Counted:
    """A schedule store that counts its calls, and what they answered."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.calls: Counter[str] = Counter()
        self.answers: list[Any] = []
        self.most = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)

        async def counted(*arguments: Any) -> Any:
            self.calls[name] += 1
            answer = await found(*arguments)
            if name == "fire":
                self.answers += [each.kind for each in answer]
            if name == "claim_due":
                self.most = max(self.most, len(answer.records))
            return answer

        return counted


async def counted(now_ms: int = NOON) -> tuple[Process, Counted]:
    process = await Process.on_memory(now_ms)
    calls = Counted(process.store.schedules)
    process.fires._store = calls
    return process, calls


async def pair(now_ms: int = NOON) -> tuple[Process, Process]:
    one = await Process.on_memory(now_ms)
    return one, Process(one.store, one.clock)


async def test_of_two_processes_only_one_does_a_slots_work() -> None:
    one, one_calls = await counted(NOON - SECOND)
    other = Process(one.store, one.clock)
    other_calls = Counted(one.store.schedules)
    other.fires._store = other_calls
    await one.store.schedules.merge([record(f"s{number:03}", Every(MINUTE), overlap="allow") for number in range(600)])
    for ms in range(0, 3 * MINUTE, 125):
        one.at(NOON - SECOND + ms)
        await one.scheduler.fire_due()
        await other.scheduler.fire_due()
    assert Counter(one_calls.answers + other_calls.answers) == {"fired": 1_800}
    assert one_calls.answers
    assert other_calls.answers
    assert {event.late_ms for process in (one, other) for event in process.told(ScheduleFired)} == {0}
    assert one_calls.calls["all"] == other_calls.calls["all"] == 0


async def test_when_one_dies_with_a_slot_another_fires_it_within_a_second() -> None:
    one, other = await pair(NOON - AHEAD_MS)
    await one.store.schedules.merge([record()])
    await one.scheduler.fire_due()
    wait_ms = await other.scheduler.fire_due()
    assert wait_ms == AHEAD_MS + HOLD_MS + AHEAD_MS - AHEAD_MS - LEAD_MS
    one.at(one.clock.now_ms() + wait_ms)
    await other.scheduler.fire_due()
    (fired,) = other.told(ScheduleFired)
    assert (fired.slot_ms, fired.late_ms) == (NOON, wait_ms - AHEAD_MS)
    assert fired.late_ms <= HOLD_MS
    # The first was only slow: its fire changes nothing.
    await one.scheduler.fire_due()
    assert one.told(ScheduleFired) == []
    assert await one.slots() == [0]


async def test_who_lost_a_slot_looks_out_for_the_next_one() -> None:
    one, other = await pair(NOON - AHEAD_MS)
    await one.store.schedules.merge([record(when=Every(2 * SECOND))])
    await one.scheduler.fire_due()
    one.at(NOON + HOLD_MS)
    await other.scheduler.fire_due()
    await one.scheduler.fire_due()
    assert (len(other.told(ScheduleFired)), one.told(ScheduleFired)) == (1, [])
    await one.run_all()
    # `other` dies now.
    while not one.told(ScheduleFired):
        one.at(one.clock.now_ms() + await one.scheduler.fire_due())
    assert [(event.slot_ms, event.late_ms) for event in one.told(ScheduleFired)] == [(NOON + 2 * SECOND, 0)]


async def test_a_process_takes_no_more_than_it_can_have_in_hand() -> None:
    process, calls = await counted(NOON - LEAD_MS)
    await process.store.schedules.merge([record(f"s{number:04}") for number in range(1_500)])
    await process.scheduler.fire_due()
    assert (calls.calls["claim_due"], calls.most) == (4, 100)
    held = [each for each in await process.store.schedules.all() if each.held_until_ms is not None]
    assert len(held) == 400
    process.at(NOON)
    await process.scheduler.fire_due()
    assert len(process.told(ScheduleFired)) == 1_500
    assert calls.most == 100


async def test_a_jitter_is_waited_for_without_asking_again() -> None:
    process, calls = await counted(NOON - 10 * MINUTE)
    slots = [NOON + number * 15 * MINUTE for number in range(4)]
    here = record(jitter_ms=14 * MINUTE, due=None)
    times = [fire_time_ms(structs.replace(here, next_due_ms=slot)) for slot in slots]
    await process.store.schedules.merge([structs.replace(here, next_due_ms=slots[0])])
    asked = 0
    while len(process.told(ScheduleFired)) < 4:
        process.at(process.clock.now_ms() + await process.scheduler.fire_due())
        await process.run_all()
        asked += 1
    told = [event.slot_ms + event.late_ms for event in process.told(ScheduleFired)]
    assert (told, [event.slot_ms for event in process.told(ScheduleFired)]) == (times, slots)
    # It is handed out once for each slot, a moment ahead, but for the first, whose fire time nobody had told the store.
    assert calls.calls["hold"] == 1
    assert calls.calls["claim_due"] < (times[-1] - NOON + 10 * MINUTE) // 10_000 + 10  # type: ignore[operator]


@pytest.mark.parametrize("change", ["paused", "removed", "moved", "replaced"])
async def test_a_change_reaches_who_has_the_schedule_in_hand(change: str) -> None:
    process = await Process.on_memory(NOON - AHEAD_MS)
    template = JobRecord(id="", queue="shop-schedules", name="old")
    await process.store.schedules.put(record(from_code=False, job=template), replace=False)
    await process.scheduler.fire_due()
    if change == "paused":
        await process.store.schedules.set_paused("s", paused=True)
    elif change == "removed":
        await process.store.schedules.remove("s")
    else:
        due = NOON if change == "replaced" else NOON + 2 * SECOND
        new = record(from_code=False, fingerprint="g", due=due, job=structs.replace(template, name="new"))
        await process.store.schedules.put(new, replace=True)
    process.at(NOON)
    await process.scheduler.fire_due()
    done = [(job.name, job.slot_ms) for job in await process.jobs()]
    assert done == ([("new", NOON)] if change == "replaced" else [])
    process.at(NOON + 2 * SECOND)
    await process.scheduler.fire_due()
    assert len(await process.jobs()) == (1 if change in ("moved", "replaced") else 0)


@pytest.mark.full
async def test_what_cannot_be_fired_here_is_given_back_for_a_while() -> None:
    process, calls = await counted()
    broken = [record(f"b{number:03}", CronTiming("0 3 * * *", timezone="Europe/Atlantis")) for number in range(250)]
    await process.store.schedules.merge([*broken, record("t", Every(20 * SECOND))])
    while process.clock.now_ms() < NOON + UNUSABLE_MS - SECOND:
        process.at(process.clock.now_ms() + await process.scheduler.fire_due())
        await process.run_all()
    assert calls.calls["claim_due"] < 15
    assert [event.slot_ms for event in process.told(ScheduleFired)] == [NOON, NOON + 20 * SECOND, NOON + 40 * SECOND]
    # They are handed out again then, to a process that knows the zone perhaps.
    before = calls.calls["hold"]
    process.at(NOON + UNUSABLE_MS)
    await process.scheduler.fire_due()
    assert calls.calls["hold"] > before
    assert len(process.told(ScheduleUnusable)) == 250


async def test_a_fire_that_waits_for_a_run_is_tried_again_soon() -> None:
    process, calls = await counted(NOON + 50 * MINUTE)
    await process.store.schedules.merge([record(missed=CatchUp(3))])
    await process.scheduler.fire_due()
    running = await process.claim()
    await process.scheduler.fire_due()
    assert calls.answers == ["missed", "fired", "busy"]
    assert [job.slot_ms for job in running] == [NOON + 15 * MINUTE]
    for _ in range(8):
        process.at(process.clock.now_ms() + await process.scheduler.fire_due())
    tried = calls.answers.count("busy")
    assert 2 <= tried <= 9
    await process.settle(running)
    ended = process.clock.now_ms()
    while calls.answers.count("fired") < 2:
        process.at(process.clock.now_ms() + await process.scheduler.fire_due())
    assert process.clock.now_ms() - ended <= BUSY_MS
    assert [job.slot_ms for job in await process.claim()] == [NOON + 30 * MINUTE]


async def test_a_clock_that_was_set_back_leaves_nothing_held() -> None:
    """It was an hour ahead when a process was handed a slot and died."""
    clock = ManualClock(NOON)
    process = Process(await open_store("memory://", app="shop", clock=clock, create=True), clock)
    slot = NOON - 45 * MINUTE
    await process.store.schedules.merge([record(due=slot)])
    await process.store.schedules.hold([Hold("s", slot, NOON + 5 * SECOND)])
    await process.scheduler.fire_due()
    await clock.advance(-HOUR)
    await process.scheduler.fire_due()
    await clock.advance(slot - clock.now_ms())
    await process.scheduler.fire_due()
    assert [(event.slot_ms, event.late_ms) for event in process.told(ScheduleFired)] == [(slot, 0)]


async def test_a_wrong_future_is_found_among_many_without_haste() -> None:
    process, calls = await counted()
    year_ms = 365 * 86_400_000
    far = [record(f"s{number:03}", At(NOON + year_ms), due=NOON + year_ms) for number in range(500)]
    await process.store.schedules.merge([*far, record("t", Every(MINUTE), due=NOON + year_ms)])
    begun = process.clock.now_ms()
    while not process.told(ScheduleSkipped):
        process.at(process.clock.now_ms() + await process.scheduler.fire_due())
    assert process.clock.now_ms() - begun < SECOND
    assert calls.calls["page"] == 6
    (back,) = await process.store.schedules.get(["t"])
    assert back is not None
    assert back.next_due_ms == NOON + MINUTE
    # From then on, a page each poll.
    for _ in range(20):
        process.at(process.clock.now_ms() + await process.scheduler.fire_due())
    assert calls.calls["page"] <= 6 + (process.clock.now_ms() - begun) // 10_000 + 1


async def test_an_idle_process_asks_once_a_poll() -> None:
    process, calls = await counted()
    await process.store.schedules.merge([record(due=NOON + HOUR), record("far", At(NOON + 30 * HOUR), due=NOON + HOUR)])
    while process.clock.now_ms() < NOON + 10 * MINUTE:
        process.at(process.clock.now_ms() + await process.scheduler.fire_due())
    assert calls.calls["claim_due"] <= 61
    assert sum(calls.calls.values()) - calls.calls["wait"] <= 2 * 61


async def test_the_loop_wakes_for_the_one_that_is_added_before_all_others() -> None:
    process = await Process.on_memory(NOON - 8 * SECOND)
    await process.store.schedules.merge([record(f"s{number}", due=NOON + HOUR) for number in range(20)])
    serving = asyncio.create_task(process.scheduler.serve())
    await turns()
    await process.store.schedules.put(record("now", At(NOON - 8 * SECOND + 1), due=NOON - 8 * SECOND + 1), replace=True)
    await turns()
    process.at(NOON - 8 * SECOND + 1)
    await until(lambda: process.told(ScheduleFired))
    serving.cancel()
    (job,) = await process.jobs()
    assert (job.schedule, job.state) == ("now", JobState.WAITING)
