"""The ready-made expressions: complete, valid, and meaning what the originals mean."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.schedules.cron_oracle import Oracle
from workfleet.model.cron import Cron
from workfleet.model.expressions import CronExpression

HOURS_AM = [f"{hour}AM" for hour in range(1, 12)]
HOURS_PM = [f"{hour}PM" for hour in range(1, 12)]

# @nestjs/schedule, lib/enums/cron-expression.enum.ts, and titan-scheduler, scheduler.interfaces.ts
NAMES = {
    *(f"EVERY_{n}_SECONDS" for n in (5, 10, 30)),
    *(f"EVERY_{n}_MINUTES" for n in (5, 10, 15, 30)),
    *(f"EVERY_{n}_HOURS" for n in range(2, 13)),
    *(f"EVERY_DAY_AT_{hour}" for hour in (*HOURS_AM, *HOURS_PM, "NOON", "MIDNIGHT")),
    *(f"MONDAY_TO_FRIDAY_AT_{hour}" for hour in (*HOURS_AM, *HOURS_PM, "12PM", "09_30AM", "11_30AM", "01_30PM")),
    *(f"EVERY_30_MINUTES_BETWEEN_{hours}" for hours in ("9AM_AND_5PM", "9AM_AND_6PM", "10AM_AND_7PM")),
    *(f"EVERY_1ST_DAY_OF_MONTH{time}" for time in ("", "_AT_MIDNIGHT", "_AT_NOON")),
    *("EVERY_SECOND", "EVERY_MINUTE", "EVERY_HOUR", "EVERY_2ND_HOUR", "EVERY_2ND_HOUR_FROM_1AM_THROUGH_11PM"),
    *("EVERY_WEEK", "EVERY_WEEKDAY", "EVERY_WEEKEND", "EVERY_LAST_DAY_OF_MONTH", "LAST_DAY_OF_MONTH"),
    *("EVERY_2ND_MONTH", "EVERY_QUARTER", "EVERY_6_MONTHS", "EVERY_YEAR"),
}

# What the originals write where our text differs: the same instants in a zone without daylight saving.
ORIGINALS = {
    "EVERY_MINUTE": "*/1 * * * *",
    "EVERY_5_MINUTES": "0 */5 * * * *",
    "EVERY_30_MINUTES": "0 */30 * * * *",
    "EVERY_HOUR": "0 0-23/1 * * *",
    "EVERY_2_HOURS": "0 0-23/2 * * *",
    "EVERY_5_HOURS": "0 0-23/5 * * *",
    "EVERY_12_HOURS": "0 0-23/12 * * *",
    "EVERY_DAY_AT_1AM": "0 01 * * *",
    "EVERY_30_MINUTES_BETWEEN_9AM_AND_5PM": "0 */30 9-17 * * *",
    "MONDAY_TO_FRIDAY_AT_09_30AM": "0 30 09 * * 1-5",
    "MONDAY_TO_FRIDAY_AT_12PM": "0 0 12 * * 1-5",
    "MONDAY_TO_FRIDAY_AT_11PM": "0 0 23 * * 1-5",
}


def test_every_name_of_the_originals_is_there() -> None:
    assert set(CronExpression.__members__) == NAMES


def test_each_is_a_str_and_parses() -> None:
    for name, member in CronExpression.__members__.items():
        assert isinstance(member, str)
        assert Cron.parse(member).next(0) is not None, name
        assert type(Cron.parse(member).expression) is str
        assert f"{member}" == member.value


@pytest.mark.parametrize(("name", "original"), ORIGINALS.items())
def test_they_mean_what_the_originals_mean(name: str, original: str) -> None:
    start = 1_780_000_020
    end = start + 4 * 86_400
    ours = [at // 1000 for at in Cron.parse(CronExpression[name]).between(start * 1000, end * 1000)]
    assert ours == Oracle(original.removeprefix("0 ") if len(original.split()) == 6 else original).due(
        "UTC", start, end
    )
    assert ours


@pytest.mark.parametrize(
    ("name", "hour", "minute"),
    [
        *((f"{hour}AM", hour, 0) for hour in range(1, 12)),
        *((f"{hour}PM", hour + 12, 0) for hour in range(1, 12)),
        ("12PM", 12, 0),
        ("09_30AM", 9, 30),
        ("11_30AM", 11, 30),
        ("01_30PM", 13, 30),
    ],
)
def test_times_of_day_are_what_their_names_say(name: str, hour: int, minute: int) -> None:
    time = f"{hour:02}:{minute:02}"
    words = Cron.parse(CronExpression[f"MONDAY_TO_FRIDAY_AT_{name}"]).describe()
    assert words == f"at {time} on Monday to Friday, UTC"
    if not minute and name != "12PM":
        assert Cron.parse(CronExpression[f"EVERY_DAY_AT_{name}"]).describe() == f"at {time} every day, UTC"


def test_every_n_hours_follow_real_time_when_the_clock_is_set_back() -> None:
    start, end = 1_793_491_200_000, 1_793_520_000_000  # 2026-11-01T00:00Z to 08:00Z; the hour repeats at 06:00Z
    hours = list(Cron.parse(CronExpression.EVERY_HOUR, timezone="America/New_York").between(start, end))
    assert [(later - earlier) // 60_000 for earlier, later in pairwise(hours)] == [60] * 7
