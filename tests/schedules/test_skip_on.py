"""A function as `skip_on`: the process that fires asks it, and a skipped slot is recorded, counted and told."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from tests.schedules.rig import DAY, HOUR, MINUTE, NOON, SECOND, Process, record
from workfleet import catch_up
from workfleet.errors import UsageError
from workfleet.events import ScheduleFault, ScheduleFired, ScheduleMissed, ScheduleSkipped
from workfleet.model.jobtypes import JobType
from workfleet.model.timing import CronTiming, timing
from workfleet.schedules.declare import ScheduleSpec, check_schedule, skips_of, timing_of

BUILD = JobType("build", None, queue="reports")
# NOON is 12:00 UTC on Saturday, 27 March 2027. In Berlin the clock is set forward the night after.
BERLIN = "Europe/Berlin"


async def process(asked: Any, *, due: int = NOON, **facts: Any) -> Process:
    made = await Process.on_memory(due)
    skips = skips_of({"skip_on": asked}, BERLIN)
    assert skips is not None
    made.scheduler._skips = {"s": skips}
    await made.store.schedules.merge([record(when=timing(cron="0 14 * * *", timezone=BERLIN), due=due, **facts)])
    return made


async def test_a_skipped_slot_runs_nothing_and_is_recorded() -> None:
    asked: list[date] = []

    def saturday(day: date) -> bool:
        asked.append(day)
        return day.weekday() == 5

    made = await process(saturday, due=NOON + HOUR)
    made.at(NOON + HOUR)
    await made.scheduler.fire_due()
    assert asked == [date(2027, 3, 27)]
    assert await made.jobs() == []
    (skipped,) = made.told(ScheduleSkipped)
    assert (skipped.slot_ms, skipped.reason) == (NOON + HOUR, "skip_on leaves out its date")
    (stored,) = await made.store.schedules.all()
    # Sunday's 14:00 is an hour earlier in UTC.
    assert (stored.next_due_ms, stored.last_outcome) == (NOON + DAY, "skipped")
    assert (stored.fired, stored.skipped, stored.missed_count) == (0, 1, 0)
    made.at(NOON + DAY)
    await made.scheduler.fire_due()
    assert [job.slot_ms for job in await made.jobs()] == [NOON + DAY]


async def test_the_date_is_local() -> None:
    asked: list[date] = []
    made = await Process.on_memory(NOON)
    skips = skips_of({"skip_on": lambda day: bool(asked.append(day))}, "Pacific/Kiritimati")
    assert skips is not None
    made.scheduler._skips = {"s": skips}
    await made.store.schedules.merge([record()])
    await made.scheduler.fire_due()
    assert asked == [date(2027, 3, 28)]
    assert len(made.told(ScheduleFired)) == 1


async def test_after_an_outage_the_last_slot_that_is_not_skipped_runs() -> None:
    made = await process(lambda day: day.weekday() >= 5, due=NOON - 2 * DAY + HOUR)
    # Due were Thursday, Friday, and Saturday, which is skipped.
    made.at(NOON + 2 * HOUR)
    await made.scheduler.fire_due()
    assert [job.slot_ms for job in await made.jobs()] == [NOON - DAY + HOUR]
    (stored,) = await made.store.schedules.all()
    assert (stored.next_due_ms, stored.fired, stored.missed_count, stored.skipped) == (NOON + DAY, 1, 1, 1)
    assert [event.count for event in made.told(ScheduleMissed)] == [1]
    assert [event.slot_ms for event in made.told(ScheduleSkipped)] == [NOON + HOUR]


async def test_a_skipped_date_makes_no_late_slot_run_that_the_policy_leaves_out() -> None:
    made = await process(lambda day: day.weekday() >= 5, due=NOON - 2 * DAY + HOUR, missed="skip")
    made.at(NOON + HOUR + SECOND)  # on time for Saturday's, which is skipped; the others are late
    await made.scheduler.fire_due()
    assert await made.jobs() == []
    (stored,) = await made.store.schedules.all()
    assert (stored.fired, stored.missed_count, stored.skipped, stored.next_due_ms) == (0, 2, 1, NOON + DAY)


async def test_a_catching_up_leaves_out_each_skipped_date_in_its_turn() -> None:
    limit = catch_up(4)
    made = await process(lambda day: day.weekday() >= 5, due=NOON - 6 * DAY + HOUR, missed=limit, overlap="allow")
    made.at(NOON + 2 * HOUR)
    await made.scheduler.fire_due()
    # Sunday to Tuesday are beyond the limit; Wednesday to Friday run, and Saturday is skipped.
    assert [job.slot_ms for job in await made.jobs()] == [NOON + HOUR - day * DAY for day in (3, 2, 1)]
    (stored,) = await made.store.schedules.all()
    assert (stored.fired, stored.missed_count, stored.skipped, stored.late) == (3, 3, 1, 3)


async def test_an_outage_of_skipped_days_runs_nothing() -> None:
    made = await process(lambda _day: True, due=NOON - 2 * DAY + HOUR)
    made.at(NOON + 2 * HOUR)
    await made.scheduler.fire_due()
    assert await made.jobs() == []
    (stored,) = await made.store.schedules.all()
    assert (stored.next_due_ms, stored.skipped, stored.missed_count) == (NOON + DAY, 3, 0)


async def test_a_function_that_fails_is_told_and_the_slot_runs() -> None:
    made = await process(lambda day: day.year == 1 // 0)
    await made.scheduler.fire_due()
    assert len(await made.jobs()) == 1
    (fault,) = made.told(ScheduleFault)
    assert (fault.schedule, fault.error) == (
        "s",
        "skip_on failed, and its slot is run: ZeroDivisionError: integer division or modulo by zero",
    )


async def test_at_run_time_dates_are_stored_and_a_function_is_refused() -> None:
    made = await Process.on_memory()
    await made.schedules.add(
        "s",
        BUILD(None),
        cron="0 14 * * *",
        skip_on=[date(2027, 3, 28)],
        start=datetime(2027, 3, 28, tzinfo=UTC),
        end=datetime(2027, 4, 1, tzinfo=UTC),
    )
    assert (await made.schedules.get("s")).next_due == datetime(2027, 3, 29, 12, tzinfo=UTC)
    with pytest.raises(UsageError, match="a function cannot be stored"):
        await made.schedules.add("t", BUILD(None), cron="0 14 * * *", skip_on=lambda _: True)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [({}, NOON + 13 * HOUR), ({"dst_gap": "skip"}, NOON + 36 * HOUR + 30 * MINUTE)],
)
async def test_the_policy_of_a_run_time_schedule_has_its_effect(policy: Any, expected: int) -> None:
    made = await Process.on_memory()
    await made.schedules.add("s", BUILD(None), cron="30 2 * * *", **policy)
    (stored,) = await made.store.schedules.all()
    assert stored.next_due_ms == expected
    assert isinstance(stored.timing, CronTiming)
    assert stored.timing.dst_gap == policy.get("dst_gap", "shift")


@pytest.mark.parametrize(("overlap", "hours"), [("first", [0]), ("second", [1]), ("both", [0, 1])])
async def test_the_overlap_policy_of_a_run_time_schedule_has_its_effect(overlap: Any, hours: list[int]) -> None:
    # On 31 October 2027, 02:30 comes twice in Berlin: at 00:30Z and at 01:30Z.
    midnight = NOON + 218 * DAY - 12 * HOUR
    made = await Process.on_memory(midnight)
    await made.schedules.add("s", BUILD(None), cron="30 2 * * *", dst_overlap=overlap)
    for hour in (0, 1, 2):
        made.at(midnight + hour * HOUR + 30 * MINUTE)
        await made.scheduler.fire_due()
        await made.settle(await made.claim("reports"))
    fired = [event.slot_ms - midnight for event in made.told(ScheduleFired)]
    assert fired == [hour * HOUR + 30 * MINUTE for hour in hours]


def test_a_declaration_is_checked_at_once() -> None:
    async def later(_day: date) -> bool:
        return True

    def spec(**options: Any) -> ScheduleSpec:
        return ScheduleSpec("s", "0 0 * * *", None, None, options)  # type: ignore[arg-type]

    check_schedule(spec(skip_on=lambda _: True, start=datetime(2026, 1, 1, tzinfo=UTC)))
    with pytest.raises(ValueError, match="not an async one"):
        check_schedule(spec(skip_on=later))
    with pytest.raises(ValueError, match="is no date"):
        check_schedule(spec(skip_on=["christmas"]))
    made = timing_of(spec(skip_on=["2026-12-25"]), name="s", default_timezone=BERLIN)
    assert made.bounds.timezone == BERLIN
