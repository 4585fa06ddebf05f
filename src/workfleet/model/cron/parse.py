"""From the text of an expression to its compiled form on a plain calendar and a plain clock, without zones.

The syntax is the Open Cron Pattern Specification (github.com/open-source-cron/ocps; 1.0 and 1.1 final, 1.2 to 1.4
drafts): five fields, or six with the seconds first, or seven with the year last; `*`, `,`, `-`, `/`, names,
`@nicknames`, `L`, `#`, `W`, `?` and `+`. As the specification says, `0/15` and ranges that run backwards are errors
(the message gives the right form), and nicknames are case-sensitive. Beyond it: `LW`, `L-3`, and Jenkins' `H`. It
differs on purpose in these: a date that can never be is an error at once, a step larger than the field is one too,
`@reboot`, which is no time, is refused with the option that does it, and `*/2` in a day field counts as a wildcard
where day of month and day of week meet, as in Vixie's and Debian's cron."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from .days import LAST_DAY, DayRule, day_rule
from .faults import CronError
from .fields import DAY, HOUR, MINUTE, MONTH, SECOND, WEEKDAY, YEAR, Field, values_of

NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MAX_LENGTH = 2_000
DAY_S = 86_400

_FIVE = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)
# Space and tab only: any other blank inside is a character that OCPS 1.0 (4.3) refuses.
_WORD = re.compile(r"[^ \t]+")
_HASH = re.compile(r"(?:^|[ \t,+])H", re.IGNORECASE)
_KINDS = {5: _FIVE, 6: (SECOND, *_FIVE), 7: (SECOND, *_FIVE, YEAR)}


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled expression. A local time is a count of seconds on the wall clock since 1970-01-01 00:00.

    `fixed`: hour, minute and (where given) second begin neither with `*` nor with a stepped `H`, so the expression
    names times of day and not a rhythm. `resolution` is in seconds: 1 with a field for the second, else 60.
    """

    second: int
    minute: int
    hour: int
    days: DayRule
    fixed: bool
    resolution: int
    every_day: bool
    times: int
    """Bit n: the nth minute of the day."""
    first_time: int
    last_time: int
    """The first and last matching second of a day."""

    def first_from(self, local: int) -> int | None:
        """The first matching local time at or after `local`, or None after the last year."""
        day, rest = divmod(local, DAY_S)
        found = day if self.every_day and 0 <= day <= LAST_DAY else self.days.first_from(day)
        if found == day:
            minute, second = divmod(rest, 60)
            later = self.times >> minute
            if later & 1:
                if seconds := self.second >> second:
                    return local + (seconds & -seconds).bit_length() - 1
                later -= 1
            if later:
                minute += (later & -later).bit_length() - 1
                return day * DAY_S + minute * 60 + self.first_time % 60
            found = self.days.first_from(day + 1)
        return None if found is None else found * DAY_S + self.first_time

    def last_until(self, local: int) -> int | None:
        """The last matching local time at or before `local`, or None before the first year."""
        day, rest = divmod(local, DAY_S)
        found = day if self.every_day and 0 <= day <= LAST_DAY else self.days.last_until(day)
        if found == day:
            minute, second = divmod(rest, 60)
            if self.times >> minute & 1 and (seconds := self.second & (2 << second) - 1):
                return day * DAY_S + minute * 60 + seconds.bit_length() - 1
            if earlier := self.times & (1 << minute) - 1:
                return day * DAY_S + (earlier.bit_length() - 1) * 60 + self.last_time % 60
            found = self.days.last_until(day - 1)
        return None if found is None else found * DAY_S + self.last_time


def parse(expression: str, hash_name: str | None = None) -> Pattern:
    """Compile an expression. `hash_name` is what its `H` fields spread by. Raises CronError."""
    # Without H the name does not matter, and a hundred thousand schedules with one expression share one pattern.
    return _parse(str(expression), hash_name if uses_hash(expression) else None)


def uses_hash(expression: str) -> bool:
    """Whether an expression spreads by a name (`H`)."""
    return _HASH.search(expression) is not None


@lru_cache(maxsize=16_384)
def _parse(expression: str, hash_name: str | None) -> Pattern:
    fields = {field.kind.name: field for field in _split(expression, hash_name)}
    second, minute, hour = fields.get(SECOND.name), fields[MINUTE.name], fields[HOUR.name]
    seconds = second.bits() if second is not None else 1
    minutes, hours = minute.bits(), hour.bits()
    days = day_rule(fields[DAY.name], fields[MONTH.name], fields[WEEKDAY.name], fields.get(YEAR.name))
    if not days.possible:
        day = fields[DAY.name]
        raise CronError(
            expression,
            "no month and year of this expression ever has such a day, so it would never run",
            field=DAY.name,
            number=day.number,
            column=day.column,
            text=day.text,
        )
    times = sum(minutes << 60 * at for at in values_of(hours))
    return Pattern(
        second=seconds,
        minute=minutes,
        hour=hours,
        days=days,
        fixed=not any(field.follows_clock for field in (second, minute, hour) if field is not None),
        resolution=60 if second is None else 1,
        every_day=days.every_day,
        times=times,
        first_time=60 * ((times & -times).bit_length() - 1) + (seconds & -seconds).bit_length() - 1,
        last_time=60 * (times.bit_length() - 1) + seconds.bit_length() - 1,
    )


def _split(expression: str, hash_name: str | None) -> list[Field]:
    if len(expression) > MAX_LENGTH:
        raise CronError(expression[:60] + "…", f"it is longer than {MAX_LENGTH} characters")
    text = expression.strip()
    lead = len(expression) - len(expression.lstrip())
    if text.startswith("@"):
        text = _nickname(expression, text, lead + 1)
    columns = [(lead + found.start() + 1, found[0]) for found in _WORD.finditer(text)]
    kinds = _KINDS.get(len(columns))
    if kinds is None:
        raise CronError(
            expression,
            f"it has {len(columns)} fields: write 5 (minute, hour, day of month, month, day of week), "
            "6 with the second first, or 7 with the year last",
        )
    return [
        Field(kind, word, hash_name if hash_name is not None and uses_hash(word) else None, expression, number, column)
        for number, (kind, (column, word)) in enumerate(zip(kinds, columns, strict=True), start=1)
    ]


def _nickname(expression: str, text: str, column: int) -> str:
    if text == "@reboot":
        raise CronError(expression, "@reboot is not a time; a job that runs at start is run_on_start=True")
    if text not in NICKNAMES:
        raise CronError(
            expression,
            "there is no such nickname",
            field="nickname",
            column=column,
            text=text,
            allowed=", ".join(NICKNAMES),
        )
    return NICKNAMES[text]
