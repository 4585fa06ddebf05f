"""A slow and obvious answer to "when is this due": every minute (or second) is looked at, with datetime and zoneinfo.

It shares nothing with the engine: own sets, own calendar, own reading of what daylight saving does.
"""

from __future__ import annotations

import calendar
import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import product
from zoneinfo import ZoneInfo

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NAMES = {
    "month": dict(zip("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split(), range(1, 13), strict=True)),
    "weekday": dict(zip("SUN MON TUE WED THU FRI SAT".split(), range(7), strict=True)),
}
RANGES = {"second": (0, 59), "minute": (0, 59), "hour": (0, 23), "day": (1, 31), "month": (1, 12), "weekday": (0, 7)}
FIELDS = tuple(RANGES)
RANGES["year"] = (1970, 2199)


class Oracle:
    """One expression of five, six or seven fields."""

    def __init__(self, expression: str) -> None:
        words = expression.split()
        self.years = plain("year", words.pop()) if len(words) == 7 else None
        self.seconds_given = len(words) == 6
        if not self.seconds_given:
            words = ["0", *words]
        self.text = dict(zip(FIELDS, words, strict=True))
        self.sets = {name: plain(name, self.text[name]) for name in ("second", "minute", "hour", "month")}
        timed = [self.text["minute"], self.text["hour"]] + [self.text["second"]] * self.seconds_given
        self.fixed = not any(word.startswith("*") for word in timed)

    def matches(self, at: datetime) -> bool:
        sets = self.sets
        return (
            at.second in sets["second"]
            and at.minute in sets["minute"]
            and at.hour in sets["hour"]
            and self.day_matches(at)
        )

    def day_matches(self, at: date) -> bool:
        return (
            at.month in self.sets["month"]
            and (self.years is None or at.year in self.years)
            and day_fits(self.text["day"], self.text["weekday"], at.year, at.month, at.day)
        )

    def due(self, zone: str, start: int, end: int, *, gap: str = "shift", overlap: str = "first") -> list[int]:
        """The instants (seconds) in [start, end)."""
        return sorted(set(self._fixed(zone, start, end, gap, overlap) if self.fixed else self._free(zone, start, end)))

    def _free(self, zone: str, start: int, end: int) -> Iterator[int]:
        for at in range(start, end, self._step(zone, start, end)):
            if self.matches(local_at(zone, at)):
                yield at

    def _step(self, zone: str, start: int, end: int) -> int:
        """A minute, or what divides it where the zone is not whole minutes away from UTC."""
        if self.seconds_given:
            return 1
        offsets = [local_at(zone, at).utcoffset() or timedelta() for at in (start, end)]
        return math.gcd(60, start, *(round(offset.total_seconds()) for offset in offsets))

    def _fixed(self, zone: str, start: int, end: int, gap: str, overlap: str) -> Iterator[int]:
        step = timedelta(seconds=1 if self.seconds_given else 60)
        # Two days more on each side: a clock that is set forward by a whole day moves a run that far.
        day, last = (local_at(zone, at).date() + timedelta(days=more) for at, more in ((start, -2), (end, 2)))
        while day <= last:
            times = product(sorted(self.sets["hour"]), sorted(self.sets["minute"]), sorted(self.sets["second"]))
            for at in (datetime.combine(day, time(*clock)) for clock in times):
                if self.matches(at):
                    yield from (each for each in instants(at, zone, step, gap, overlap) if start <= each < end)
            day += timedelta(days=1)


@lru_cache(maxsize=100_000)
def instants(at: datetime, zone: str, step: timedelta, gap: str, overlap: str) -> list[int]:
    """What one local time means. `at` has no zone."""
    found = real(at, zone)
    if len(found) == 2:
        return {"first": found[:1], "second": found[1:], "both": found}[overlap]
    if found or gap == "skip":
        return found
    while not found:
        at += step
        found = real(at, zone)
    return found[:1]


def real(at: datetime, zone: str) -> list[int]:
    """The instants at which the clock of a zone shows a local time: none, one or two."""
    found = []
    for fold in (0, 1):
        there = at.replace(tzinfo=ZoneInfo(zone), fold=fold)
        instant = round((there - EPOCH).total_seconds())
        if local_at(zone, instant).replace(tzinfo=None, fold=0) == at and instant not in found:
            found.append(instant)
    return found


@lru_cache(maxsize=100_000)
def local_at(zone: str, instant: int) -> datetime:
    return (EPOCH + timedelta(seconds=instant)).astimezone(ZoneInfo(zone))


def local_offset(zone: str, instant: int) -> int:
    """Seconds that the clock of a zone is ahead of UTC."""
    offset = datetime.fromtimestamp(instant, ZoneInfo(zone)).utcoffset()
    assert offset is not None
    return round(offset.total_seconds())


def plain(name: str, text: str) -> set[int]:
    low, high = RANGES[name]
    values: set[int] = set()
    for item in text.split(","):
        body, _, step = item.partition("/")
        if body in ("*", "?"):
            first, last = low, high
        elif "-" in body:
            first, last = (number(name, each) for each in body.split("-"))
        else:
            first = last = number(name, body)
        values.update(range(first, last + 1, int(step or 1)))
    return values


def number(name: str, text: str) -> int:
    return int(text) if text.isdigit() else NAMES[name][text.upper()]


@lru_cache(maxsize=100_000)
def day_fits(day_text: str, weekday_text: str, year: int, month: int, day: int) -> bool:
    length = calendar.monthrange(year, month)[1]
    by_day = any(day_item_fits(item, date(year, month, day), length) for item in day_text.split(","))
    both = weekday_text.startswith("+")
    by_weekday = any(
        weekday_item_fits(item, date(year, month, day), length) for item in weekday_text.strip("+").split(",")
    )
    if both or day_text[0] in "*?" or weekday_text[0] in "*?":
        return by_day and by_weekday
    return by_day or by_weekday


def day_item_fits(item: str, at: date, length: int) -> bool:
    if item == "L":
        return at.day == length
    if item == "LW":
        return at.day == max(day for day in range(1, length + 1) if at.replace(day=day).weekday() < 5)
    if item.startswith("L-"):
        return at.day == length - int(item[2:])
    if item.endswith("W"):
        target = int(item[:-1])
        if target > length:
            return False
        working = [day for day in range(1, length + 1) if at.replace(day=day).weekday() < 5]
        # The nearest; of a Saturday and a Sunday the neighbour is one day away, except at the month's ends.
        return at.day == min(working, key=lambda day: abs(day - target))
    return at.day in plain("day", item)


def weekday_item_fits(item: str, at: date, length: int) -> bool:
    weekday = at.isoweekday() % 7
    if "#" in item or item.endswith("L"):
        name, _, place = item.partition("#") if "#" in item else (item[:-1], "", "L")
        if number("weekday", name) % 7 != weekday:
            return False
        return at.day + 7 > length if place == "L" else (at.day - 1) // 7 + 1 == int(place)
    return weekday in {value % 7 for value in plain("weekday", item)}
