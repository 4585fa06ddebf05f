"""One field of a cron expression: from its text to the set of values it allows, as bits (bit n: the value n).

It knows the grammar of a single item (`*`, `5`, `1-5`, `*/10`, `0-30/10`, `MON`, `H`, `H/15`, `H(1-5)`), not the
modifiers of the two day fields (`L`, `W`, `#`), which days.py reads, and nothing of clocks, dates or zones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NoReturn

from .faults import CronError

FIRST_YEAR, LAST_YEAR = 1970, 2199


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """What one of the seven fields may hold. `names` start at `low`; `hash_high` is the top of a bare `H`."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    hash_high: int | None = None

    @property
    def allowed(self) -> str:
        names = f" or {self.names[0]}-{self.names[-1]}" if self.names else ""
        return f"{self.low}-{self.high}{names}"


SECOND = Kind("second", 0, 59, hash_high=59)
MINUTE = Kind("minute", 0, 59, hash_high=59)
HOUR = Kind("hour", 0, 23, hash_high=23)
# A bare H stays within the days that every month has.
DAY = Kind("day of month", 1, 31, hash_high=28)
MONTH = Kind("month", 1, 12, tuple("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()), hash_high=12)
WEEKDAY = Kind("day of week", 0, 7, tuple("SUN MON TUE WED THU FRI SAT".split()), hash_high=6)
YEAR = Kind("year", FIRST_YEAR, LAST_YEAR)

_NUMBER = re.compile(r"[0-9]{1,4}")
_HASH = re.compile(r"H(?:\(([^()]*)\))?(?:/(.*))?")


def bit_range(low: int, high: int, step: int = 1) -> int:
    """Bits low, low + step, … up to high."""
    if step == 1:
        return (1 << high + 1) - (1 << low)
    return sum(1 << value for value in range(low, high + 1, step))


def values_of(bits: int) -> Iterator[int]:
    """The values in a set, in order."""
    while bits:
        yield (bits & -bits).bit_length() - 1
        bits &= bits - 1


@dataclass(frozen=True, slots=True)
class Field:
    """The text of one field and where it stands. `column` counts from 1; `hash_name` is what `H` spreads by.

    Two fields of one text are equal wherever they stand, so that what they mean is computed once.
    """

    kind: Kind
    text: str
    hash_name: str | None
    expression: str = field(compare=False)
    number: int = field(compare=False)
    column: int = field(compare=False)

    def items(self) -> list[str]:
        """The comma-separated pieces, in capitals: names and letters may be written either way."""
        return self.text.upper().split(",")

    @property
    def starred(self) -> bool:
        """It begins with a wildcard: for the two day fields, "says nothing", as in Vixie's and Debian's cron."""
        return self.text[0] in "*?"

    @property
    def follows_clock(self) -> bool:
        """It begins with `*` or a stepped `H`: such a time of day repeats with the clock instead of being one fixed
        time."""
        first = self.items()[0]
        return first.startswith("*") or (first.startswith("H") and "/" in first)

    def fail(self, item: str, reason: str) -> NoReturn:
        """Refuse one piece of this field."""
        offset = max(self.text.upper().find(item), 0) if item else 0
        raise CronError(
            self.expression,
            reason,
            field=self.kind.name,
            number=self.number,
            column=self.column + offset,
            text=self.text[offset : offset + len(item)] if item else self.text,
            allowed=self.kind.allowed,
        )

    def bits(self) -> int:
        """The values that this field allows. Every item is checked, also behind a `*` (OCPS 1.1, 5.1)."""
        found = 0
        for item in self.items():
            found |= self.item_bits(item)
        return found

    def item_bits(self, item: str) -> int:
        """The values of one item."""
        if not item:
            self.fail(item, "an item of the list is empty")
        if item.startswith("H"):
            return self._hashed(item)
        body, slash, step_text = item.partition("/")
        step = self._step(item, step_text) if slash else 1
        if body == "*":
            return bit_range(self.kind.low, self._top, step)
        if "-" in body:
            return bit_range(*self._range(item, body), step)
        if slash:
            self._bare_step(item, body, step)
        value = self.value(item, body)
        return 1 << value

    def value(self, item: str, text: str) -> int:
        """One number or name of this field."""
        kind = self.kind
        if text in kind.names:
            return kind.low + kind.names.index(text)
        if not _NUMBER.fullmatch(text):
            self.fail(item, f"{text!r} is not a value of this field" if text else "a value is missing")
        value = int(text)
        if not kind.low <= value <= kind.high:
            self.fail(item, f"{value} is out of range")
        return value

    @property
    def _top(self) -> int:
        return 6 if self.kind is WEEKDAY else self.kind.high

    def _step(self, item: str, text: str) -> int:
        count = self._top - self.kind.low + 1
        if not _NUMBER.fullmatch(text) or not (step := int(text)):
            self.fail(item, f"the step {text!r} is not a number from 1 to {count}")
        if step > count:
            # `*/90` looks like every 90 minutes and is every hour.
            self.fail(
                item, f"a step of {step} is more than the {count} values of this field; for a fixed distance use every="
            )
        return step

    def _range(self, item: str, body: str) -> tuple[int, int]:
        first, _, last = body.partition("-")
        low, high = self.value(item, first), self.value(item, last)
        if self.kind is WEEKDAY and last == "SUN" and low:
            high = 7  # SUN is 0 or 7: FRI-SUN is three days
        if low > high:
            top, bottom = (7, 1) if self.kind is WEEKDAY else (self.kind.high, self.kind.low)
            self.fail(item, f"the range runs backwards; to pass over the end write {first}-{top},{bottom}-{last}")
        return low, high

    def _bare_step(self, item: str, body: str, step: int) -> NoReturn:
        if not body:
            self.fail(item, f"a step needs something to step through: write */{step}")
        low = self.value(item, body)
        alias = f" (or */{step})" if low == self.kind.low else ""
        self.fail(item, f"a step needs a range: write {body}-{self._top}/{step}{alias}")

    def _hashed(self, item: str) -> int:
        """`H`: a value that the schedule's name chooses, always the same one; `H/15`: a step with a chosen start."""
        match = _HASH.fullmatch(item)
        if match is None or self.kind.hash_high is None:
            self.fail(item, "H is written H, H/15, H(1-5) or H(0-29)/10, and not in the year")
        if self.hash_name is None:
            self.fail(item, "H spreads by the schedule's name, and none was given (--name on the command line)")
        inside, step_text = match.groups()
        low, high = self.kind.low, self.kind.hash_high
        if inside is not None:
            if "-" not in inside:
                self.fail(item, "the parentheses hold a range such as H(1-5)")
            low, high = self._range(item, inside)
        count = high - low + 1
        if step_text is None:
            return 1 << low + spread(self.hash_name, self.kind.name, count)
        step = self._step(item, step_text)
        if step > count:
            self.fail(item, f"a step of {step} is more than the {count} values it steps through")
        return bit_range(low + spread(self.hash_name, self.kind.name, step), high, step)


def spread(name: str, field: str, count: int) -> int:
    """A number below `count` chosen by a name, the same in every process and release: stored schedules depend on it."""
    digest = blake2b(f"{field}\0{name}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % count
