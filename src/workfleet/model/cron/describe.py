"""A compiled pattern in plain English: what was compiled, not what was written, so that `H` shows its choice."""

from __future__ import annotations

from .days import ALL_MONTHS, ALL_YEARS, LAST, DayRule
from .fields import DAY, HOUR, MINUTE, SECOND, Kind, bit_range, values_of
from .parse import Pattern

_MOST_TIMES = 6
_MONTHS = ("", *"January February March April May June July August September October November December".split())
_WEEKDAYS = tuple("Sunday Monday Tuesday Wednesday Thursday Friday Saturday".split())
_PLACES = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", LAST: "last"}


def describe(pattern: Pattern) -> str:
    """Such as "every 5 minutes", "at 03:00 every day", "at 03:00 on Monday to Friday in January"."""
    days = _days(pattern.days)
    if pattern.times.bit_count() * pattern.second.bit_count() <= _MOST_TIMES:
        times = [_clock(minute, second) for minute in values_of(pattern.times) for second in values_of(pattern.second)]
        return f"at {_joined(times)} {days or 'every day'}"
    rhythm = _minutes(pattern.minute, pattern.hour) if pattern.second == 1 else _seconds(pattern)
    return f"{rhythm} {days}".rstrip()


def _seconds(pattern: Pattern) -> str:
    rhythm = _every(SECOND, pattern.second) or f"at {_named('second', pattern.second)} of every minute"
    if not _full(MINUTE, pattern.minute):
        return f"{rhythm} in {_named('minute', pattern.minute)} of {_hours(pattern.hour)}"
    return rhythm if _full(HOUR, pattern.hour) else f"{rhythm} in {_hours(pattern.hour)}"


def _minutes(minute: int, hour: int) -> str:
    rhythm = _every(MINUTE, minute)
    if rhythm:
        return rhythm if _full(HOUR, hour) else f"{rhythm} in {_hours(hour)}"
    if minute == 1 and (hours := _every(HOUR, hour)):
        return hours
    return f"at {_named('minute', minute)} of {_hours(hour)}"


def _hours(hour: int) -> str:
    return "every hour" if _full(HOUR, hour) else _named("hour", hour)


def _every(kind: Kind, bits: int) -> str:
    """Such as "every 15 minutes", where the steps divide the field evenly; else nothing."""
    count = kind.high + 1
    for step in range(1, count // 2 + 1):
        if count % step == 0 and bits == bit_range(0, kind.high, step):
            return f"every {kind.name}" if step == 1 else f"every {step} {kind.name}s"
    return ""


def _full(kind: Kind, bits: int) -> bool:
    return bits == bit_range(kind.low, kind.high)


def _days(days: DayRule) -> str:
    by_day, by_weekday = _by_day(days), _by_weekday(days)
    if by_day and by_weekday:
        words = f"on {by_day} or on {by_weekday}" if days.either else f"on {by_day}, only if it is {by_weekday}"
    elif days.either or not (by_day or by_weekday):
        words = ""  # every day; `1-31` OR anything is that too
    else:
        words = f"on {by_day or by_weekday}"
    if days.months != ALL_MONTHS:
        words += f" in {_listed(days.months, _MONTHS)}"
    if days.years != ALL_YEARS:
        words += f" in {_listed(days.years, None)}" if days.months == ALL_MONTHS else f" {_listed(days.years, None)}"
    return words.strip()


def _by_day(days: DayRule) -> str:
    if _full(DAY, days.days):
        return ""
    parts = []
    if days.days:
        parts.append(_named("day", days.days))
    for back in values_of(days.from_last):
        plural = "" if back == 1 else "s"
        parts.append(f"the day {back} day{plural} before the last" if back else "the last day")
    if days.nearest:
        parts.append(f"the weekday nearest to day {days.nearest}")
    if days.last_weekday:
        parts.append("the last weekday")
    return f"{_joined(parts)} of the month" if parts else ""


def _by_weekday(days: DayRule) -> str:
    if days.weekdays == bit_range(0, 6):
        return ""
    parts = []
    if days.weekdays:
        # Monday first: the working week then reads as one range.
        monday_first = days.weekdays >> 1 | (days.weekdays & 1) << 6
        parts.append(_listed(monday_first, (*_WEEKDAYS[1:], _WEEKDAYS[0])))
    parts += [f"the {_PLACES[n]} {_WEEKDAYS[weekday]} of the month" for weekday, n in days.nth]
    return _joined(parts)


def _named(noun: str, bits: int) -> str:
    plural = "s" if bits.bit_count() > 1 else ""
    return f"{noun}{plural} {_listed(bits, None)}"


def _listed(bits: int, names: tuple[str, ...] | None) -> str:
    """Such as "1, 5 to 9 and 20": three or more neighbours are a range."""
    values = list(values_of(bits))
    parts: list[str] = []
    while values:
        run = 1
        while run < len(values) and values[run] == values[0] + run:
            run += 1
        run = run if run > 2 else 1
        first, last = values[0], values[run - 1]
        words = [names[each] if names else str(each) for each in ((first, last) if run > 1 else (first,))]
        parts.append(" to ".join(words))
        del values[:run]
    return _joined(parts)


def _joined(parts: list[str]) -> str:
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)


def _clock(minute: int, second: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}" + (f":{second:02}" if second else "")
