"""What a schedule does while a run of it is unfinished, by its `overlap`: fired and triggered, told and counted."""

from __future__ import annotations

from typing import Any

import pytest

from tests.schedules.rig import DAY, MINUTE, NOON, Process, record
from workfleet import JobType, UsageError, catch_up, schedule
from workfleet.events import ScheduleCoalesced, ScheduleFired, ScheduleSkipped
from workfleet.model.jobs import JobRecord, JobState
from workfleet.model.schedules import ScheduleRecord
from workfleet.model.timing import Every, timing
from workfleet.schedules.due import fire_time_ms

QUARTER = 15 * MINUTE
WORK = JobType("work", int, type(None), queue="q")


async def started(overlap: str, **facts: Any) -> tuple[Process, JobRecord]:
    """A process, and the run of noon, which goes on."""
    process = await Process.on_memory()
    await process.store.schedules.merge([record(overlap=overlap, **facts)])
    await process.scheduler.fire_due()
    (running,) = await process.claim()
    return process, running


async def fire(process: Process, *quarters: int) -> None:
    for quarter in quarters:
        process.at(NOON + quarter * QUARTER)
        await process.scheduler.fire_due()


async def stored(process: Process) -> ScheduleRecord:
    (found,) = await process.store.schedules.get(["s"])
    assert found is not None
    return found


async def test_queue_one_lets_one_wait_and_says_which_slots_went_into_it() -> None:
    process, running = await started("queue_one")
    await fire(process, 1, 2, 3)
    assert await process.claim() == []
    told = process.told(ScheduleCoalesced)
    assert [event.slot_ms for event in told] == [NOON + 2 * QUARTER, NOON + 3 * QUARTER]
    waits = (await process.jobs())[-1]
    assert {event.job_id for event in told} == {waits.id}
    assert told[0].reason == f"the run {waits.id} waits already"
    assert [event.slot_ms for event in process.told(ScheduleFired)] == [NOON, NOON + QUARTER]
    record_ = await stored(process)
    assert (record_.fired, record_.coalesced, record_.last_outcome, record_.last_reason) == (
        2, 2, "coalesced", told[1].reason
    )  # fmt: skip
    await process.settle([running])
    (next_,) = await process.claim()
    assert next_.slot_ms == NOON + QUARTER
    assert process.told(ScheduleSkipped) == []


async def test_cancel_running_asks_the_old_one_and_runs_the_newest_slot_after_it() -> None:
    process, running = await started("cancel_running")
    await fire(process, 1, 2)
    assert await process.store.jobs.cancels([running.claim]) == [True]
    assert await process.claim() == []
    (told,) = process.told(ScheduleCoalesced)
    assert (told.slot_ms, told.reason) == (
        NOON + 2 * QUARTER, f"the run {told.job_id}, which has not begun, runs this slot in place of its own"
    )  # fmt: skip
    await process.settle([running], JobState.FAILED)
    (next_,) = await process.claim()
    assert next_.slot_ms == NOON + 2 * QUARTER


async def test_allow_runs_beside_it() -> None:
    process, _ = await started("allow")
    await fire(process, 1, 2)
    assert len(await process.claim()) == 2


@pytest.mark.parametrize("overlap", ["queue_one", "cancel_running"])
async def test_a_triggered_run_waits_for_the_end_of_the_one_that_goes_on(overlap: str) -> None:
    process, running = await started(overlap)
    triggered = await process.schedules.trigger("s")
    assert triggered.ref is not None
    assert await process.store.jobs.cancels([running.claim]) == [overlap == "cancel_running"]
    assert await process.claim() == []
    again = await process.schedules.trigger("s")
    assert again.reason == f"the schedule 's' has a run that waits already (job {triggered.ref.id})"
    await process.settle([running], JobState.FAILED)
    assert [job.id for job in await process.claim()] == [triggered.ref.id]


async def test_a_trigger_takes_no_slot_away_from_a_run_that_waits() -> None:
    process, _ = await started("cancel_running")
    await fire(process, 1)
    assert not (await process.schedules.trigger("s")).accepted
    assert (await process.jobs())[-1].slot_ms == NOON + QUARTER


async def test_a_run_at_start_waits_and_cancels_nobody() -> None:
    process, running = await started("cancel_running")
    assert await process.start([await stored(process)], worker="w2") == 1
    assert await process.store.jobs.cancels([running.claim]) == [False]
    assert await process.claim() == []


# Jitter


@pytest.mark.parametrize(
    ("expression", "zone"),
    [
        ("0,1,59 * * * *", "UTC"),
        ("* * * * * *", "UTC"),
        ("0 0 1,2,31 * *", "UTC"),
        ("*/7 9-17 * * 1-5", "Europe/Berlin"),
        ("30 2 * * *", "Europe/Berlin"),
        ("0,30 0-3 * * *", "America/New_York"),
        ("*/10 1-3 * * *", "Australia/Lord_Howe"),
        ("0 12 29 2 *", "UTC"),
        ("0 9 * * 5#1,1#2", "Asia/Kathmandu"),
    ],
)
def test_jitter_never_leaves_the_slot_of_an_irregular_expression(expression: str, zone: str) -> None:
    """A jitter of a year: the fire is always before the next slot, over both changes of the clock."""
    when = timing(cron=expression, timezone=zone)
    slot = when.next_after(NOON - 2 * DAY)
    widest = 0
    for _ in range(400):
        assert slot is not None
        following = when.next_after(slot)
        fires = fire_time_ms(record(when=when, due=slot, jitter_ms=365 * DAY))
        assert fires is not None
        if following is None:
            break
        assert slot <= fires < following
        widest = max(widest, fires - slot)
        slot = following
    assert widest > 0


def test_jitter_stays_before_the_end_of_a_bounded_schedule_and_off_the_grid() -> None:
    bounded = timing(every="1h", skip_on=["2027-03-28"], end="2027-03-30T00:00")
    slot = bounded.next_after(NOON)
    while slot is not None and (following := bounded.next_after(slot)) is not None:
        fires = fire_time_ms(record(when=bounded, due=slot, jitter_ms=365 * DAY))
        assert fires is not None
        assert slot <= fires < following
        slot = following
    left = fire_time_ms(record(when=Every(QUARTER), due=NOON - 1_000, jitter_ms=DAY))
    assert left is not None
    assert NOON - 1_000 <= left < NOON


# As they are asked for


@pytest.mark.parametrize("missed", ["catch_up(3)", catch_up(3)], ids=["text", "value"])
async def test_a_schedule_of_the_run_time_keeps_its_policies(missed: Any) -> None:
    process = await Process.on_memory()
    info = await process.schedules.add("t", WORK(1), every="1h", overlap="queue_one", missed=missed)
    (kept,) = await process.store.schedules.get(["t"])
    assert kept is not None
    assert (kept.overlap, kept.missed) == ("queue_one", catch_up(3))
    assert (info.overlap, info.missed_policy) == ("queue_one", "catch_up(3)")


@pytest.mark.parametrize("overlap", ["skip", "queue_one", "cancel_running"])
async def test_a_job_with_a_key_of_its_own_must_be_allowed_to_overlap(overlap: Any) -> None:
    process = await Process.on_memory()
    with pytest.raises(UsageError, match=f'which overlap="{overlap}" does already'):
        await process.schedules.add("t", WORK(1, unique="{data}"), every="1h", overlap=overlap)
    await process.schedules.add("t", WORK(1, unique="{data}"), every="1h", overlap="allow")


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ({"missed": "catch_up"}, r"missed='catch_up': it is one of 'once', 'skip', catch_up\(10\)"),
        ({"missed": "catch_up(0)"}, r"catch_up\(0\): it is a number from 1 to 1,000"),
        ({"overlap": "wait"}, "overlap='wait': it is one of 'skip', 'queue_one', 'allow', 'cancel_running'"),
    ],
)
async def test_what_makes_no_sense_is_refused_when_it_is_said(said: Any, wrong: str) -> None:
    process = await Process.on_memory()
    with pytest.raises(UsageError, match=wrong):
        await process.schedules.add("t", WORK(1), every="1h", **said)
    with pytest.raises(ValueError, match=wrong):
        schedule(every="1h", **said)
