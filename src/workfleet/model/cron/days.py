"""Which days an expression means: day of month, month, day of week and year together, on the plain calendar.

A day is a count of days since 1970-01-01. The answer for a month depends only on its length and the weekday of its
first day, so at most 28 masks are ever computed for one rule. Nothing here knows of hours or zones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache

from .fields import FIRST_YEAR, LAST_YEAR, Field, bit_range, values_of

EPOCH = date(1970, 1, 1).toordinal()
LAST_DAY = date(LAST_YEAR, 12, 31).toordinal() - EPOCH
ALL_MONTHS = bit_range(1, 12)
ALL_YEARS = bit_range(FIRST_YEAR, LAST_YEAR)
LAST = -1
"""In `DayRule.nth`: the last such weekday of the month."""

_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_WEEKS = bit_range(0, 28, 7)
_FROM_LAST = re.compile(r"L-([0-9]{1,2})")
_NEAREST = re.compile(r"([0-9]{1,2})W")


@dataclass(frozen=True, slots=True)
class DayRule:
    """The days of an expression; sets are bits. `either`: day of month OR day of week, else both must fit."""

    days: int
    from_last: int
    """Bit n: n days before the last day of the month."""
    nearest: int
    """`15W`: the weekday (Monday to Friday) nearest to this day, in the same month; 0: none."""
    last_weekday: bool
    weekdays: int
    nth: tuple[tuple[int, int], ...]
    """(weekday, n): the nth such weekday of the month."""
    either: bool
    months: int
    years: int
    every_day: bool = field(init=False, compare=False)
    """No day is left out."""
    possible: bool = field(init=False, compare=False)
    """There is such a day at all."""
    _masks: dict[int, int] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "every_day", self._is_every_day())
        object.__setattr__(self, "possible", self._is_possible())

    def month_mask(self, year: int, month: int) -> int:
        """The days of one month, bit n: day n."""
        return self.mask(_length(year, month), date(year, month, 1).toordinal() % 7)

    def mask(self, length: int, first: int) -> int:
        """The days of a month of that length whose first day is that weekday (0: Sunday)."""
        key = length << 3 | first
        known = self._masks.get(key)
        if known is None:
            known = self._masks[key] = self._compute(length, first)
        return known

    def first_from(self, day: int) -> int | None:
        """The first fitting day from `day` on, or None after the last year."""
        if day > LAST_DAY:
            return None
        at = date.fromordinal(max(day, 0) + EPOCH)
        year, month, skip = at.year, at.month, at.day
        while True:
            if self.months >> month & 1 and self.years >> year & 1:
                start = date(year, month, 1).toordinal()
                rest = self.mask(_length(year, month), start % 7) >> skip
                if rest:
                    return start - 1 - EPOCH + skip + (rest & -rest).bit_length() - 1
            later = self.months >> month + 1
            if later:
                month += (later & -later).bit_length()
            else:
                later = self.years >> year + 1
                if not later:
                    return None
                year += (later & -later).bit_length()
                month = (self.months & -self.months).bit_length() - 1
            skip = 1

    def last_until(self, day: int) -> int | None:
        """The last fitting day up to `day`, or None before the first year."""
        if day < 0:
            return None
        at = date.fromordinal(min(day, LAST_DAY) + EPOCH)
        year, month, keep = at.year, at.month, at.day
        while True:
            if self.months >> month & 1 and self.years >> year & 1:
                start = date(year, month, 1).toordinal()
                rest = self.mask(_length(year, month), start % 7) & (2 << keep) - 1
                if rest:
                    return start - 1 - EPOCH + rest.bit_length() - 1
            earlier = self.months & (1 << month) - 1
            if earlier:
                month = earlier.bit_length() - 1
            else:
                earlier = self.years & (1 << year) - 1
                if not earlier:
                    return None
                year = earlier.bit_length() - 1
                month = self.months.bit_length() - 1
            keep = 31

    def _is_every_day(self) -> bool:
        if self.months != ALL_MONTHS or self.years != ALL_YEARS:
            return False
        kinds = ((length, first) for length in (28, 29, 30, 31) for first in range(7))
        return all(self.mask(length, first) == bit_range(1, length) for length, first in kinds)

    def _is_possible(self) -> bool:
        if self.years != ALL_YEARS:
            return any(self.month_mask(year, at) for year in values_of(self.years) for at in values_of(self.months))
        # Unrestricted years hold every kind of month.
        lengths = {_LENGTHS[month] for month in values_of(self.months)}
        if 28 in lengths:
            lengths.add(29)
        return any(self.mask(length, first) for length in lengths for first in range(7))

    def _compute(self, length: int, first: int) -> int:
        whole = bit_range(1, length)
        by_day = self.days & whole
        for back in values_of(self.from_last):
            if back < length:
                by_day |= 1 << length - back
        if self.last_weekday:
            by_day |= 1 << _nearest_weekday(length, length, first)
        if self.nearest and self.nearest <= length:
            by_day |= 1 << _nearest_weekday(self.nearest, length, first)
        by_weekday = 0
        for weekday in values_of(self.weekdays):
            by_weekday |= _WEEKS << 1 + (weekday - first) % 7
        for weekday, n in self.nth:
            day = 1 + (weekday - first) % 7
            day += 7 * ((length - day) // 7 if n == LAST else n - 1)
            by_weekday |= 1 << day
        return (by_day | by_weekday if self.either else by_day & by_weekday) & whole


@lru_cache(maxsize=4_096)
def day_rule(day: Field, month: Field, weekday: Field, year: Field | None) -> DayRule:
    """Read the four fields that choose days.

    Day of month and day of week are combined with OR when neither begins with `*` (OCPS 1.0, 6.1; a stepped `*/2`
    counts as a wildcard here, as in Vixie's and Debian's cron), with AND when one does or when the day of week begins
    with `+` (OCPS 1.4)."""
    days, from_last, nearest, last_weekday = _read_days(day)
    both = weekday.text.startswith("+")
    weekdays, nth = _read_weekdays(weekday, weekday.text[both:].upper())
    return DayRule(
        days=days,
        from_last=from_last,
        nearest=nearest,
        last_weekday=last_weekday,
        weekdays=weekdays,
        nth=nth,
        either=not (both or day.starred or weekday.starred),
        months=month.bits(),
        years=year.bits() if year is not None else ALL_YEARS,
    )


def _read_days(field: Field) -> tuple[int, int, int, bool]:
    days = from_last = nearest = 0
    last_weekday = False
    items = field.items()
    for item in items:
        if item == "?":
            days |= bit_range(1, 31)
        elif item == "L":
            from_last |= 1
        elif item == "LW":
            last_weekday = True
        elif match := _FROM_LAST.fullmatch(item):
            back = int(match[1])
            if not 1 <= back <= 30:
                field.fail(item, "L-n counts 1 to 30 days back from the last day of the month")
            from_last |= 1 << back
        elif match := _NEAREST.fullmatch(item):
            if len(items) > 1:
                field.fail(item, "W stands for a single day and cannot be part of a list")
            nearest = field.value(item, match[1])
        elif "W" in item or "L" in item:
            field.fail(item, "W and L are written 15W, LW, L or L-3, without ranges and steps")
        else:
            days |= field.item_bits(item)
    return days, from_last, nearest, last_weekday


def _read_weekdays(field: Field, text: str) -> tuple[int, tuple[tuple[int, int], ...]]:
    weekdays = 0
    nth: list[tuple[int, int]] = []
    for item in text.split(","):
        if item == "?":
            weekdays |= bit_range(0, 6)
        elif "#" in item:
            name, _, place = item.partition("#")
            if place != "L" and (len(place) != 1 or place not in "12345"):
                field.fail(item, f"after # comes 1 to 5 or L, as in MON#2 or FRI#L, not {place!r}")
            nth.append((field.value(item, name) % 7, LAST if place == "L" else int(place)))
        elif item.endswith("L"):
            if item == "L":
                field.fail(item, "L needs a weekday before it: FRI#L is the last Friday of the month")
            nth.append((field.value(item, item[:-1]) % 7, LAST))
        else:
            weekdays |= field.item_bits(item)
    return weekdays & 0x7F | weekdays >> 7, tuple(nth)


def _length(year: int, month: int) -> int:
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return _LENGTHS[month] + leap


def _nearest_weekday(day: int, length: int, first: int) -> int:
    """The Monday to Friday nearest to a day without leaving its month (OCPS 1.3, 4.3)."""
    weekday = (first + day - 1) % 7
    if weekday == 6:
        return day - 1 if day > 1 else day + 2
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day
