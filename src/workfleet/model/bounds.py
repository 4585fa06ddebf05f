"""What leaves slots out of a timing: a start, an end, and days on which nothing is due. Stored with it, and pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import date, datetime, timedelta
from typing import TypeAlias

from msgspec import Struct

from .cron import zone

SkipOn: TypeAlias = Collection[date | str] | Callable[[date], bool]
"""Local dates, as `date` or "2026-12-25", or a function that says of a local date whether it is left out."""
Step: TypeAlias = Callable[[int], int | None]

_DAY_S = 86_400
_EPOCH = date(1970, 1, 1)
_MOST_DAYS = 10_000


class Bounds(Struct, frozen=True, omit_defaults=True):
    """Slots count from `start_ms` on and before `end_ms`, but not on the local dates of `skip_on` (ISO, sorted)."""

    start_ms: int | None = None
    end_ms: int | None = None
    skip_on: tuple[str, ...] = ()
    timezone: str = "UTC"

    def next_after(self, ms: int, step: Step) -> int | None:
        """The first slot after an instant that counts; `step` gives the timing's next one."""
        at = step(ms if self.start_ms is None else max(ms, self.start_ms - 1))
        while at is not None and (self.end_ms is None or at < self.end_ms):
            day, _, ends_ms = _day(at, self.timezone)
            if day.isoformat() not in self.skip_on:
                return at
            at = step(ends_ms - 1)
        return None

    def previous_before(self, ms: int, step: Step) -> int | None:
        """The last slot before an instant that counts; `step` gives the timing's previous one."""
        at = step(ms if self.end_ms is None else min(ms, self.end_ms))
        while at is not None and (self.start_ms is None or at >= self.start_ms):
            day, begins_ms, _ = _day(at, self.timezone)
            if day.isoformat() not in self.skip_on:
                return at
            at = step(begins_ms)
        return None


def local_date(ms: int, timezone: str) -> date:
    """The date that the clock of a zone shows at an instant."""
    return _day(ms, timezone)[0]


def _day(ms: int, timezone: str) -> tuple[date, int, int]:
    """The local date of an instant, and from when until before when the clock has gone evenly on that date: it can be
    set back at midnight, so that a date begins, ends and begins again."""
    start, end, offset, *_ = zone(timezone).at(ms // 1000)
    day = (ms // 1000 + offset) // _DAY_S
    begins, ends = max(start, day * _DAY_S - offset), min(end, (day + 1) * _DAY_S - offset)
    return _EPOCH + timedelta(days=day), begins * 1000, ends * 1000


def dates_of(skip_on: Iterable[date | str]) -> tuple[str, ...]:
    """Dates as they are stored. Raises ValueError for what is none."""
    if isinstance(skip_on, (str, date)):
        raise ValueError("give several dates, as a list or a set, or a function")
    found = {_date(each).isoformat() for each in skip_on}
    if len(found) > _MOST_DAYS:
        raise ValueError(f"{len(found)} dates are more than {_MOST_DAYS}: give a function")
    return tuple(sorted(found))


def _date(value: object) -> date:
    if isinstance(value, datetime) or not isinstance(value, (date, str)):
        raise ValueError(f"{value!r} is no date such as date(2026, 12, 25) or '2026-12-25'")
    try:
        return value if isinstance(value, date) else date.fromisoformat(value)
    except ValueError:
        raise ValueError(f"{value!r} is no date such as '2026-12-25'") from None
