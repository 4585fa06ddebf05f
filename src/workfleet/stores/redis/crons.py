"""Cron patterns as BullMQ's workers read them, which is by npm's cron-parser 5: its grammar in our own arithmetic.

It differs from our cron (`model/cron`) in what it lets through (`0/15`, any step, four fields and fewer, its own
nicknames) and in what a changed clock does to a pattern that leaves out hours: a time that is passed over runs at the
same minute of the hour after it, and an hour that comes twice runs once, unless the search begins within its second
turn. Passed-over midnights are left out, as cron-parser mostly does. `H` is not read: it draws by a seed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from workfleet.model.cron import Cron, Zone, zone

NICKNAMES = {
    "@yearly": "0 0 0 1 1 *", "@annually": "0 0 0 1 1 *", "@monthly": "0 0 0 1 * *", "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *", "@hourly": "0 0 * * * *", "@minutely": "0 * * * * *", "@secondly": "* * * * * *",
    "@weekdays": "0 0 0 * * 1-5", "@weekends": "0 0 0 * * 0,6",
}  # fmt: skip
_DEFAULTS = ("0", "*", "*", "*", "*", "*")
_MONTHS = {name: number for number, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)}
_WEEKDAYS = {name: number for number, name in enumerate("sun mon tue wed thu fri sat".split())}
_NAME = re.compile(r"[a-z]{3}", re.IGNORECASE)
_ITEM = re.compile(r"(\d+)(?:-(\d+))?(?:/(\d+))?")
_ALL_HOURS = list(range(24))
_HOUR_S, _DAY_S = 3_600, 86_400


def next_run(pattern: str, after_ms: int, timezone: str) -> int | None:
    """The first instant of a pattern after `after_ms`; None when there is none. Raises `ValueError` for a pattern or a
    time zone that cannot be read."""
    return _compiled(pattern, timezone).next(after_ms)


@dataclass(frozen=True, slots=True)
class _Pattern:
    once: Cron
    """Every local time that exists, the first of two."""
    twice: Cron
    """Both of two."""
    days: str
    times: str
    hours: list[int]
    zone: Zone

    def next(self, after_ms: int) -> int | None:
        found = self.once.next(after_ms)
        if self.hours == _ALL_HOURS:
            return found
        again = self._within_second_turn(after_ms)
        if again is not None:
            return again
        landed = self._landed(after_ms, found)
        return found if landed is None else landed

    def _within_second_turn(self, after_ms: int) -> int | None:
        at = after_ms // 1000
        span = self.zone.at(at)
        if at + span.offset >= span.seen:
            return None
        found = self.twice.next(after_ms)
        inside = found is not None and found // 1000 < span.end and found // 1000 + span.offset < span.seen
        return found if inside else None

    def _landed(self, after_ms: int, found_ms: int | None) -> int | None:
        """The run of a time that the clock passes over before the next one that exists."""
        at = after_ms // 1000
        last = at + 400 * _DAY_S if found_ms is None else found_ms // 1000
        span = self.zone.at(at)
        while span.end <= last:
            span = self.zone.at(span.end)
            local = span.start + span.offset
            skipped = range(-(-span.seen // _HOUR_S), local // _HOUR_S)
            if skipped and skipped[0] // 24 == local // _DAY_S and skipped[0] % 24:
                run = self._run_after(span.start, local, [hour % 24 for hour in skipped])
                if run is not None and run // 1000 <= last:
                    return run
        return None

    def _run_after(self, start: int, local: int, skipped: list[int]) -> int | None:
        if not set(skipped) & set(self.hours):
            return None
        hour = local // _HOUR_S
        landing = Cron.parse(f"{self.times} {hour % 24} {self.days}", timezone=self.zone.name, dst_gap="skip")
        run = landing.next(start * 1000 - 1)
        end = start + _HOUR_S - local % _HOUR_S
        return run if run is not None and run // 1000 < end else None


@lru_cache(maxsize=4_096)
def _compiled(pattern: str, timezone: str) -> _Pattern:
    atoms = NICKNAMES.get(pattern, pattern).split()
    if not 1 <= len(atoms) <= 6:
        raise ValueError(f"{pattern!r} has {len(atoms)} fields; BullMQ takes up to 6")
    second, minute, hour, day, month, weekday = (*_DEFAULTS[: 6 - len(atoms)], *atoms)
    hours = _values(hour, 0, 23)
    # Listed values are fixed times for our cron, a star follows the clock: what a changed clock does depends on it.
    hour_text = "*" if hours == _ALL_HOURS else _listed(hours)
    times = f"{_listed(_values(second, 0, 59))} {_listed(_values(minute, 0, 59))}"
    months = _listed(_values(_NAME.sub(lambda name: _number(name[0], _MONTHS), month), 1, 12))
    days = f"{_days(day)} {months} {_weekdays(weekday)}"
    whole = f"{times} {hour_text} {days}"
    return _Pattern(
        once=Cron.parse(whole, timezone=timezone, dst_gap="skip"),
        twice=Cron.parse(whole, timezone=timezone, dst_gap="skip", dst_overlap="both"),
        days=days,
        times=times,
        hours=hours,
        zone=zone(timezone),
    )


def _number(name: str, numbers: dict[str, int]) -> str:
    if name.lower() not in numbers:
        raise ValueError(f"there is no month or day {name!r}")
    return str(numbers[name.lower()])


def _days(text: str) -> str:
    if text in ("*", "?"):
        return "*"
    items = text.split(",")
    last = ["L"] if "L" in items else []
    rest = ",".join(item for item in items if item != "L")
    return ",".join([*map(str, _values(rest, 1, 31) if rest else []), *last])


def _weekdays(text: str) -> str:
    if text in ("*", "?"):
        return "*"
    text = _NAME.sub(lambda name: _number(name[0], _WEEKDAYS), text)
    body, mark, place = text.partition("#")
    if mark:
        return ",".join(f"{value}#{place}" for value in _weekday_values(body))
    items = text.split(",")
    last = [item for item in items if item.endswith("L")]
    rest = ",".join(item for item in items if not item.endswith("L"))
    # With an L anywhere, the last one of each named day fits too, which a plain day includes anyway.
    return ",".join([*map(str, _weekday_values(rest) if rest else []), *last])


def _weekday_values(text: str) -> list[int]:
    return sorted({value % 7 for value in _values(text, 0, 7)})


def _values(text: str, low: int, high: int) -> list[int]:
    """The values of a field of numbers, each once, in order."""
    found: set[int] = set()
    for item in re.sub(r"[*?]", f"{low}-{high}", text).split(","):
        match = _ITEM.fullmatch(item)
        if match is None:
            raise ValueError(f"{text!r} cannot be read")
        first = int(match[1])
        last = int(match[2]) if match[2] else high if match[3] else first
        step = int(match[3] or 1)
        if not low <= first <= last <= high or step < 1:
            raise ValueError(f"{item!r} is not within {low} to {high}")
        found.update(range(first, last + 1, step))
    return sorted(found)


def _listed(values: list[int]) -> str:
    return ",".join(map(str, values))
