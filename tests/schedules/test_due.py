"""Which slots are due, which one runs, how many were passed over: pure decisions."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from workfleet.model.jobs import JobRecord, RunOverrides
from workfleet.model.schedules import ScheduleRecord
from workfleet.model.timing import At, Every, Manual, timing
from workfleet.schedules.due import (
    Due,
    find_due,
    fire_of,
    fire_time_ms,
    is_live,
    lies_in_a_wrong_future,
    overlap_key,
    run_of,
)
from workfleet.testing.clock import instant_ms

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
NOON = instant_ms("2027-03-27T12:00Z")


def record(when: Any, due: int | None = NOON, **facts: Any) -> ScheduleRecord:
    job = JobRecord(id="", queue="shop-schedules", name="s")
    return ScheduleRecord(name="s", timing=when, fingerprint="f", job=job, next_due_ms=due, **facts)


EVERY = Every(15 * MINUTE)
CRON = timing(cron="*/15 * * * *")


@pytest.mark.parametrize("when", [EVERY, CRON], ids=["every", "cron"])
@pytest.mark.parametrize(
    ("late_ms", "once", "skip"),
    [
        (-1, None, None),
        (0, (0, 0, 1), (0, 0, 1)),
        (1, (0, 0, 1), (0, 0, 1)),
        (60_000, (0, 0, 1), (0, 0, 1)),  # "skip" still runs what is a minute late
        (60_001, (0, 0, 1), (None, 1, 1)),
        (15 * MINUTE - 1, (0, 0, 1), (None, 1, 1)),
        (15 * MINUTE, (1, 1, 2), (1, 1, 2)),
        (62 * MINUTE, (4, 4, 5), (None, 5, 5)),
        (60 * MINUTE, (4, 4, 5), (4, 4, 5)),
    ],
)
def test_what_is_due(when: Any, late_ms: int, once: Any, skip: Any) -> None:
    """Each expectation: the slot that runs, how many are passed over, the next one, in slots from the first."""

    def expected(answer: Any) -> Due | None:
        if answer is None:
            return None
        slot, missed, following = answer
        return Due(None if slot is None else NOON + slot * 15 * MINUTE, missed, NOON + following * 15 * MINUTE)

    assert find_due(record(when), NOON + late_ms) == expected(once)
    assert find_due(record(when, missed="skip"), NOON + late_ms) == expected(skip)


@pytest.mark.parametrize("when", [EVERY, CRON], ids=["every", "cron"])
def test_a_first_slot_that_an_older_definition_left_behind_is_a_slot_like_any_other(when: Any) -> None:
    left = record(when, NOON - 4 * MINUTE)
    assert find_due(left, NOON - 1) == Due(NOON - 4 * MINUTE, 0, NOON)
    assert find_due(left, NOON) == Due(NOON, 1, NOON + 15 * MINUTE)
    assert find_due(left, NOON + 31 * MINUTE) == Due(NOON + 30 * MINUTE, 3, NOON + 45 * MINUTE)


def test_a_month_of_seconds_is_counted_exactly_and_at_once() -> None:
    now = NOON + 30 * DAY + 500
    assert find_due(record(Every(1_000)), now) == Due(NOON + 30 * DAY, 30 * 86_400, NOON + 30 * DAY + 1_000)


def test_what_has_to_be_counted_one_by_one_is_counted_up_to_a_limit_but_the_slot_is_right() -> None:
    here = record(timing(cron="* * * * * *"))
    assert find_due(here, NOON + DAY + 500) == Due(NOON + DAY, 86_400, NOON + DAY + 1_000)
    assert find_due(here, NOON + 2 * DAY + 500) == Due(NOON + 2 * DAY, 100_000, NOON + 2 * DAY + 1_000)


def test_days_that_are_left_out_were_not_missed() -> None:
    bounded = timing(every="6h", skip_on=["2027-03-28"], end="2027-03-29T07:00")
    late = instant_ms("2027-03-30T00:00Z")
    assert find_due(record(bounded), late) == Due(instant_ms("2027-03-29T06:00Z"), 3, None)


def test_once() -> None:
    assert find_due(record(At(NOON)), NOON - 1) is None
    assert find_due(record(At(NOON)), NOON) == Due(NOON, 0, None)
    assert find_due(record(At(NOON)), NOON + DAY) == Due(NOON, 0, None)
    assert find_due(record(At(NOON), missed="skip"), NOON + DAY) == Due(None, 1, None)
    assert find_due(record(At(NOON), None), NOON + DAY) is None
    assert find_due(record(Manual(), None), NOON) is None


def test_a_night_without_the_hour() -> None:
    """02:30 does not exist in Berlin on that day: the job runs once, at the first valid instant, and not again."""
    when = timing(cron="30 2 * * *", timezone="Europe/Berlin")
    first = instant_ms("2027-03-28T01:00Z")
    assert when.next_after(instant_ms("2027-03-28T00:00Z")) == first
    due = find_due(record(when, first), first + HOUR)
    assert due == Due(first, 0, instant_ms("2027-03-29T00:30Z"))


# Jitter


def jittered(due: int, jitter_ms: int, name: str = "s") -> ScheduleRecord:
    made = record(EVERY, due, jitter_ms=jitter_ms)
    made.name = name
    return made


def test_jitter_is_the_same_everywhere_and_differs_by_slot_and_name() -> None:
    slots = [NOON + number * 15 * MINUTE for number in range(200)]
    first, again = ([fire_time_ms(jittered(slot, 5 * MINUTE)) for slot in slots] for _ in range(2))
    assert first == again
    offsets = [fires - slot for fires, slot in zip(first, slots, strict=True) if fires is not None]
    assert min(offsets) >= 0
    assert max(offsets) <= 5 * MINUTE
    assert len(set(offsets)) > 190
    assert max(offsets) - min(offsets) > 4 * MINUTE
    assert offsets != [fire_time_ms(jittered(slot, 5 * MINUTE, "other")) - slot for slot in slots]  # type: ignore[operator]


def test_jitter_never_leaves_its_slot() -> None:
    offsets = set()
    for number in range(10_000):
        slot = NOON + number * 1_000
        fires = fire_time_ms(record(Every(1_000), slot, jitter_ms=DAY))
        assert fires is not None
        offsets.add(fires - slot)
    assert (min(offsets), max(offsets)) == (0, 999)


def test_a_slot_waits_for_its_jitter_and_the_one_before_it_is_not_taken_for_missed() -> None:
    """A jitter as long as the interval: the loop may wake some milliseconds after the next slot has begun."""
    for number in range(100):
        slot = NOON + number * 15 * MINUTE
        here = jittered(slot, DAY)
        fires = fire_time_ms(here)
        assert fires is not None
        assert find_due(here, fires - 1) is None
        following = fire_time_ms(jittered(slot + 15 * MINUTE, DAY))
        assert following is not None
        assert find_due(here, fires) == Due(slot, 0, slot + 15 * MINUTE)
        # The next slot has begun, but waits for its own jitter: this one runs, and nothing is missed.
        late = max(slot + 15 * MINUTE, following - 1)
        assert find_due(here, late) == Due(slot, 0, slot + 15 * MINUTE)
        assert find_due(here, following) == Due(slot + 15 * MINUTE, 1, slot + 30 * MINUTE)


def test_a_long_jitter_is_not_taken_for_lateness() -> None:
    """With missed="skip", what runs at its jittered time is on time."""
    ran = 0
    for number in range(50):
        slot = NOON + number * 15 * MINUTE
        here = jittered(slot, 10 * MINUTE)
        here.missed = "skip"
        fires = fire_time_ms(here)
        assert fires is not None
        assert find_due(here, fires + 60_000) == Due(slot, 0, slot + 15 * MINUTE)
        ran += fires - slot > 60_000
    assert ran > 30  # most of them were later than a minute


def test_the_last_slot_has_the_whole_jitter() -> None:
    fires = fire_time_ms(record(At(NOON), jitter_ms=HOUR))
    assert fires is not None
    assert NOON <= fires <= NOON + HOUR


# The fire and its run


def test_a_fire_names_its_slot_and_derives_the_jobs_id_from_it() -> None:
    here = record(EVERY, jitter_ms=0)
    due = find_due(here, NOON + 31 * MINUTE)
    assert due is not None
    fire, again = fire_of(here, due, "shop"), fire_of(here, due, "shop")
    assert fire.job is not None
    assert again.job is not None
    assert (fire.schedule, fire.slot_ms, fire.next_due_ms, fire.missed, fire.overlap) == (
        "s", NOON, NOON + 45 * MINUTE, 2, "skip"
    )  # fmt: skip
    assert (fire.job.slot_ms, fire.job.schedule, fire.ran_slot_ms) == (NOON + 30 * MINUTE, "s", NOON + 30 * MINUTE)
    assert fire.job.id == again.job.id
    assert fire.call != again.call
    ids = set()
    for app, name, slot in itertools.product(("shop", "blog"), ("s", "t"), (NOON, NOON + 15 * MINUTE)):
        made = jittered(slot, 0, name)
        due = find_due(made, slot)
        assert due is not None
        job = fire_of(made, due, app).job
        assert job is not None
        ids.add(job.id)
    assert len(ids) == 8


def test_a_skipped_slot_has_no_job() -> None:
    here = record(EVERY, missed="skip")
    due = find_due(here, NOON + HOUR + 2 * MINUTE)
    assert due is not None
    fire = fire_of(here, due, "shop")
    assert (fire.job, fire.missed, fire.next_due_ms) == (None, 5, NOON + 75 * MINUTE)


def test_a_run_takes_everything_of_its_template() -> None:
    template = JobRecord(
        id="", queue="q", name="n", payload=b"[1]", run=RunOverrides(attempts=7), priority=3, lifo=True, delay_ms=9,
        unique_key="own", tags=("a",), metadata={"k": "v"}, housekeeping=True,
    )  # fmt: skip
    here = record(EVERY, overlap="allow")
    here.job = template
    run = run_of(here, "id", NOON)
    for field in JobRecord.__struct_fields__:
        wanted = {"id": "id", "schedule": "s", "slot_ms": NOON}.get(field, getattr(template, field))
        assert getattr(run, field) == wanted, field
    here.overlap = "skip"
    assert run_of(here, "id", None).unique_key == overlap_key("s")


@pytest.mark.parametrize(
    ("facts", "live"),
    [
        ({}, True),
        ({"enabled": False}, False),
        ({"paused": True}, False),
        ({"orphaned": True}, False),
        ({"due": None}, False),
    ],
)
def test_what_fires_at_all(facts: dict[str, Any], live: bool) -> None:
    assert is_live(record(EVERY, **facts)) is live


@pytest.mark.parametrize("when", [EVERY, CRON], ids=["every", "cron"])
@pytest.mark.parametrize(
    ("ahead_ms", "wrong"),
    [(15 * MINUTE, False), (HOUR + 15 * MINUTE, False), (HOUR + 30 * MINUTE, True), (365 * DAY, True)],
)
def test_a_slot_far_ahead_is_the_mark_of_a_wrong_clock(when: Any, ahead_ms: int, *, wrong: bool) -> None:
    assert lies_in_a_wrong_future(record(when, NOON + ahead_ms), NOON) is wrong


def test_once_in_the_far_future_is_right() -> None:
    assert not lies_in_a_wrong_future(record(At(NOON + 365 * DAY), NOON + 365 * DAY), NOON)
