"""Which slots a schedule catches up with, and what becomes of those that come meanwhile: pure decisions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from msgspec import structs

from tests.schedules.rig import DAY, HOUR, MINUTE, NOON, SECOND, record
from workfleet import catch_up
from workfleet.model.missed import CatchUp, missed_of
from workfleet.model.schedules import ScheduleRecord, reason_of
from workfleet.model.timing import Every, timing
from workfleet.schedules.due import Due, find_due, fire_of, without_skipped

EACH_MINUTE = [Every(MINUTE), timing(cron="* * * * *")]


def caught(when: Any = EACH_MINUTE[0], limit: int = 3, **facts: Any) -> ScheduleRecord:
    return record(when=when, missed=catch_up(limit), **facts)


def steps(here: ScheduleRecord, now_ms: int, *, run_ms: int = 0) -> Iterator[tuple[Due, int]]:
    """What is due, one after the other, each run taking so long; and when. As the store applies it."""
    while (due := find_due(here, now_ms)) is not None:
        yield due, now_ms
        here = structs.replace(here, next_due_ms=due.next_ms, last_outcome="missed")
        if due.slot_ms is not None:
            here = structs.replace(here, last_fired_ms=now_ms, last_outcome="fired")
            now_ms += run_ms


def minutes(dues: list[Due]) -> list[int]:
    return [(due.slot_ms - NOON) // MINUTE for due in dues if due.slot_ms is not None]


@pytest.mark.parametrize("when", EACH_MINUTE, ids=["every", "cron"])
@pytest.mark.parametrize(
    ("late_ms", "limit", "slots", "missed"),
    [
        (0, 3, [0], 0),
        (59 * SECOND, 3, [0], 0),
        (MINUTE, 3, [0, 1], 0),
        (2 * MINUTE, 3, [0, 1, 2], 0),
        (3 * MINUTE, 3, [1, 2, 3], 1),
        (HOUR, 10, list(range(51, 61)), 51),
        (HOUR, 1, [60], 60),
        (HOUR, 61, list(range(61)), 0),
        (HOUR, 1_000, list(range(61)), 0),
    ],
)
def test_the_last_so_many_run_in_order_and_the_others_are_missed(
    when: Any, late_ms: int, limit: int, slots: list[int], missed: int
) -> None:
    dues = [due for due, _ in steps(caught(when, limit), NOON + late_ms)]
    assert minutes(dues) == slots
    assert sum(due.missed for due in dues) == missed
    assert [due.missed for due in dues[1:]] == [0] * (len(dues) - 1)
    assert dues[-1].next_ms == NOON + (late_ms // MINUTE + 1) * MINUTE


def test_a_slot_on_time_follows_overlap_and_one_that_is_owed_waits_for_its_turn() -> None:
    on_time = find_due(caught(), NOON + MINUTE - 1)
    assert on_time == Due(NOON, 0, NOON + MINUTE)
    late = find_due(caught(Every(HOUR)), NOON + MINUTE + 1)
    assert late == Due(NOON, 0, NOON + HOUR, waits=True)
    two = find_due(caught(), NOON + MINUTE)
    assert two == Due(NOON, 0, NOON + MINUTE, waits=True)
    assert late is not None
    for overlap, waits in (("skip", True), ("queue_one", True), ("cancel_running", True), ("allow", False)):
        fire = fire_of(caught(Every(HOUR), overlap=overlap), late, "shop")
        assert (fire.waits, fire.overlap, fire.late) == (waits, overlap, True)
        assert fire.job is not None
        assert fire.job.unique.on_conflict == "keep"


def test_what_becomes_due_meanwhile_is_caught_up_with_too_and_the_limit_holds() -> None:
    """Three are owed at 12:10, and each run takes 90 s."""
    found = [due for due, _ in islice(steps(caught(), NOON + 10 * MINUTE, run_ms=90 * SECOND), 9)]
    assert minutes(found) == [8, 9, 11, 12, 14, 15]
    assert [due.missed for due in found] == [8, 0, 0, 1, 0, 0, 1, 0, 0]
    assert all(due.waits for due in found if due.slot_ms is not None)


def test_it_is_on_time_again_when_it_is_not_behind_any_more() -> None:
    found = list(steps(caught(), NOON + 10 * MINUTE, run_ms=SECOND))
    assert minutes([due for due, _ in found]) == [8, 9, 10]
    last, ended = found[-1]
    here = caught(due=last.next_ms, last_fired_ms=ended)
    assert find_due(here, NOON + 11 * MINUTE) == Due(NOON + 11 * MINUTE, 0, NOON + 12 * MINUTE)
    # But one that was due when the last one was fired belongs to what is caught up with.
    assert find_due(caught(last_fired_ms=NOON), NOON + SECOND) == Due(NOON, 0, NOON + MINUTE, waits=True)
    assert find_due(caught(last_fired_ms=NOON - 1), NOON + SECOND) == Due(NOON, 0, NOON + MINUTE)
    # So does one before which others have just been passed over.
    assert find_due(caught(last_outcome="missed"), NOON + SECOND) == Due(NOON, 0, NOON + MINUTE, waits=True)


def test_with_allow_all_are_due_at_once_and_none_is_left_out() -> None:
    dues = [due for due, _ in steps(caught(overlap="allow"), NOON + 10 * MINUTE, run_ms=1)]
    assert minutes(dues) == [8, 9, 10]


def test_a_first_slot_off_the_grid_is_one_of_them() -> None:
    left = caught(due=NOON - 20 * SECOND)
    assert [due.slot_ms for due, _ in steps(left, NOON + MINUTE)] == [NOON - 20 * SECOND, NOON, NOON + MINUTE]
    beyond = [due.slot_ms for due, _ in steps(left, NOON + 2 * MINUTE)]
    assert beyond == [None, NOON, NOON + MINUTE, NOON + 2 * MINUTE]


def test_jitter_is_no_lateness_and_the_slot_that_waits_for_its_own_is_not_caught_up_with() -> None:
    for number in range(50):
        slot = NOON + number * MINUTE
        here = caught(due=slot, jitter_ms=DAY)
        slots = [due.slot_ms for due, _ in steps(here, slot + 5 * MINUTE)]
        assert slots[0] is None
        assert slots[-1] in (slot + 4 * MINUTE, slot + 5 * MINUTE)
        assert len(slots) == 4


def test_slots_that_a_function_leaves_out_are_skipped_in_their_turn() -> None:
    here = caught(limit=5)
    due = find_due(here, NOON + 4 * MINUTE)
    assert due == Due(NOON, 0, NOON + MINUTE, waits=True)
    left_out = without_skipped(here, due, lambda slot: True)
    assert (left_out.slot_ms, left_out.missed, left_out.skipped, left_out.next_ms) == (None, 0, 1, NOON + MINUTE)
    assert without_skipped(here, due, lambda slot: False) == due


def test_the_days_of_daylight_saving_are_counted_like_others() -> None:
    """Berlin on 2027-03-28 has no 02:30: 03:00 stands for it. On 2027-10-31 it has 02:30 twice, and runs once."""
    for day, slots in (("2027-03-28", 1), ("2027-10-31", 1)):
        when = timing(cron="30 2 * * *", timezone="Europe/Berlin", start=f"{day}T00:00+00:00")
        first = when.next_after(0)
        assert first is not None
        dues = [due for due, _ in steps(caught(when, due=first), first + 20 * HOUR)]
        assert len(dues) == slots


# What it is called, and why


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("once", "once"),
        ("skip", "skip"),
        (catch_up(7), CatchUp(7)),
        ("catch_up(10)", CatchUp(10)),
        (" catch_up( 10 ) ", CatchUp(10)),
        (str(catch_up(1000)), CatchUp(1000)),
    ],
)
def test_policies_as_they_are_said(said: object, meant: object) -> None:
    assert missed_of(said) == meant


@pytest.mark.parametrize("said", ["never", "catch_up", "catch_up()", "catch_up(-1)", "catch_up(1.5)", None, 3, ""])
def test_what_is_no_policy(said: object) -> None:
    with pytest.raises(ValueError, match=r"missed=.*: it is one of 'once', 'skip', catch_up\(10\)"):
        missed_of(said)


@pytest.mark.parametrize("limit", [0, -1, 1001, 1.5, True, "3", None])
def test_limits_that_make_no_sense(limit: Any) -> None:
    with pytest.raises(ValueError, match="it is a number from 1 to 1,000"):
        catch_up(limit)
    with pytest.raises(ValueError, match="it is a number from 1 to 1,000"):
        missed_of(CatchUp(limit))


@pytest.mark.parametrize(
    ("missed", "why"),
    [
        ("once", 'it was not fired in time, and missed="once" runs only the last'),
        ("skip", 'it was not fired in time, and missed="skip" runs none that is late'),
        (catch_up(2), "it was not fired in time, and missed=catch_up(2) runs only the last 2"),
    ],
)
def test_reasons(missed: Any, why: str) -> None:
    here = record(when=Every(MINUTE), missed=missed)
    due = find_due(here, NOON + 10 * MINUTE + 2 * SECOND)
    assert due is not None
    fire = fire_of(here, due, "shop")
    assert reason_of(fire, "missed") == why
    assert reason_of(fire, "late") == ""


def test_a_slot_is_late_when_it_is_fired_more_than_a_minute_after_its_time() -> None:
    here = record(when=Every(HOUR))
    for late_ms, late in ((60_000, False), (60_001, True)):
        due = find_due(here, NOON + late_ms)
        assert due is not None
        fire = fire_of(here, due, "shop")
        assert fire.late is late
        assert reason_of(fire, "late") == ("it was fired 1m after its time" if late else "")
