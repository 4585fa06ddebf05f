"""The engine against slow answers: a minute-by-minute oracle written apart from it, and cronsim on five fields."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim

from tests.schedules.cron_oracle import EPOCH, Oracle
from workfleet.model.cron import Cron

DAY = 86_400

# (zone, a day near a change of its clock): every shape of change in tzdata since 1970 is here.
CHANGES = [
    ("Europe/Berlin", "2026-03-29"),
    ("Europe/Berlin", "2026-10-25"),
    ("America/New_York", "2026-03-08"),
    ("America/New_York", "2040-11-04"),
    ("Europe/Dublin", "2026-10-25"),  # negative daylight saving
    ("America/Havana", "2026-03-08"),  # midnight does not exist
    ("America/Havana", "2026-11-01"),
    ("America/Asuncion", "2023-10-01"),
    ("America/Sao_Paulo", "2017-10-15"),
    ("Asia/Beirut", "2026-03-29"),
    ("Africa/Cairo", "2026-10-30"),  # midnight twice
    ("Atlantic/Azores", "2026-10-25"),
    ("America/St_Johns", "2006-04-02"),  # at 00:01
    ("America/St_Johns", "2006-10-29"),
    ("Australia/Lord_Howe", "2026-10-04"),  # half an hour
    ("Australia/Lord_Howe", "2027-04-04"),
    ("Antarctica/Troll", "2026-03-29"),  # two hours
    ("Antarctica/Troll", "2026-10-25"),
    ("Africa/Casablanca", "2026-02-15"),  # Ramadan
    ("Asia/Tehran", "2022-03-22"),
    ("Asia/Kathmandu", "1986-01-01"),  # a quarter of an hour, for good
    ("Asia/Pyongyang", "2018-05-05"),
    ("America/Caracas", "2007-12-09"),
    ("Pacific/Apia", "2011-12-30"),  # a day left out
    ("Pacific/Kwajalein", "1993-08-21"),
    ("Africa/Monrovia", "1972-01-07"),  # 44 minutes 30 seconds
    ("Asia/Gaza", "2026-03-28"),
]
# Where cronsim 2.8 itself is wrong: it never ends in Monrovia, repeats one instant for ever at 00:01 in St John's, and
# leaves out the midnight to which Pyongyang's clock was set forward. The oracle above covers them.
CRONSIM_CHANGES = [each for each in CHANGES if each[0] not in ("Africa/Monrovia", "America/St_Johns", "Asia/Pyongyang")]
EXPRESSIONS = [
    "* * * * *",
    "*/7 * * * *",
    "0 * * * *",
    "59 */3 * * *",
    "*/20 0-4 * * *",
    "0 0 * * *",
    "0 1 * * *",
    "30 2 * * *",
    "15,45 0-3 * * *",
    "0 0,1,2,3 * * 6,0",
    "0-59/10 0-23 L * *",
    "1 0 1,15,LW * SUN#1,5L",
    "30 23 */2 * 1-5",
]


def engine(cron: Cron, start: int, end: int) -> list[int]:
    return [at // 1000 for at in cron.between(start * 1000, end * 1000)]


def window(day: str, days: int = 2) -> tuple[int, int]:
    middle = round((datetime.fromisoformat(day).replace(tzinfo=UTC) - EPOCH).total_seconds())
    return middle - days * DAY, middle + days * DAY


def random_expression(draw: random.Random) -> str:
    def number(low: int, high: int) -> str:
        return str(draw.randint(low, high))

    def item(low: int, high: int) -> str:
        # Two different ends: cronsim reads `8-8/2` as `8-23/2`.
        first, last = sorted(draw.sample(range(low, high + 1), 2))
        step = draw.choice([1, 2, 3, 5, 7])
        return draw.choice(["*", f"*/{step}", f"{first}-{last}", f"{first}-{last}/{step}", number(low, high)])

    def field(low: int, high: int) -> str:
        return ",".join(item(low, high) for _ in range(draw.choice([1, 1, 1, 2, 3])))

    day = draw.choice(["*", "*", "*", field(1, 31), "L", "1,L"])
    month = draw.choice(["*", "*", field(1, 12)])
    weekday = draw.choice(["*", "*", field(0, 7), "MON-FRI", "0#2,5L"])
    return f"{field(0, 59)} {field(0, 23)} {day} {month} {weekday}"


@pytest.mark.parametrize(("zone", "day"), CHANGES)
def test_minute_by_minute_around_a_change(zone: str, day: str) -> None:
    start, end = window(day)
    for expression in EXPRESSIONS:
        assert engine(Cron.parse(expression, timezone=zone), start, end) == Oracle(expression).due(zone, start, end)


@pytest.mark.parametrize("overlap", ["first", "second", "both"])
@pytest.mark.parametrize("gap", ["shift", "skip"])
def test_policies_around_changes(gap: str, overlap: str) -> None:
    for zone, day in CHANGES:
        start, end = window(day, days=1)
        for expression in ("30 0 * * *", "0,20,40 1-2 * * *", "15 * * * *"):
            cron = Cron.parse(expression, timezone=zone, dst_gap=gap, dst_overlap=overlap)  # type: ignore[arg-type]
            expected = Oracle(expression).due(zone, start, end, gap=gap, overlap=overlap)
            assert engine(cron, start, end) == expected, (zone, expression)


@pytest.mark.parametrize(("zone", "day"), [CHANGES[i] for i in (0, 1, 5, 14, 15, 25)])
def test_second_by_second_around_a_change(zone: str, day: str) -> None:
    middle = window(day, days=0)[0]
    # Three hours around the change itself, wherever in the day it lies.
    change = next(at for at in range(middle - DAY, middle + DAY, 30) if changes_at(zone, at))
    for expression in ("*/20 * * * * *", "15 30 0-3 * * *", "0-59/30 0-59/7 0-3 * * *", "*/40 5,55 * * * *"):
        start, end = change - 5_400, change + 5_400
        assert engine(Cron.parse(expression, timezone=zone), start, end) == Oracle(expression).due(zone, start, end)


def changes_at(zone: str, at: int) -> bool:
    tz = ZoneInfo(zone)
    before, after = ((EPOCH + timedelta(seconds=each)).astimezone(tz).utcoffset() for each in (at, at + 30))
    return before != after


def test_backwards_is_the_same_list() -> None:
    for zone, day in CHANGES:
        start, end = window(day)
        for expression in ("*/20 0-4 * * *", "0 0,1,2,3 * * *", "0 12 L * *"):
            cron = Cron.parse(expression, timezone=zone)
            back: list[int] = []
            at = cron.previous(end * 1000)
            while at is not None and at >= start * 1000:
                back.append(at // 1000)
                at = cron.previous(at)
            assert back[::-1] == engine(cron, start, end), (zone, expression)


def test_cronsim_around_changes() -> None:
    for zone, day in CRONSIM_CHANGES:
        # From half a day before the change on.
        start = window(day)[0] + 3 * DAY // 2
        for expression in EXPRESSIONS:
            compare_with_cronsim(expression, zone, start, 12)


def test_cronsim_on_random_expressions() -> None:
    draw = random.Random(20260329)
    for _ in range(250):
        zone, day = draw.choice(CRONSIM_CHANGES)
        expression = random_expression(draw)
        start = window(day)[0] + draw.randint(-400 * DAY, DAY)
        compare_with_cronsim(expression, zone, start, 12)


def compare_with_cronsim(expression: str, zone: str, start: int, count: int) -> None:
    # cronsim looks at most 50 years ahead and steps day by day: keep to what it finds.
    there = (EPOCH + timedelta(seconds=start)).astimezone(ZoneInfo(zone))
    expected = [round((at - EPOCH).total_seconds()) for at in islice(CronSim(expression, there), count)]
    cron = Cron.parse(expression, timezone=zone)
    found = [at // 1000 for at in islice(cron.between((start + 1) * 1000, 2**53), len(expected))]
    assert found == expected, (expression, zone, there.isoformat())
