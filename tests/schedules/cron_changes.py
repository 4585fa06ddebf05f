"""Changes of clocks in tzdata, found by asking zoneinfo twice a day, and the distinct shapes among them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from zoneinfo import available_timezones

from tests.schedules.cron_oracle import local_offset

DAY = 86_400
FIRST, LAST = 0, 2_145_916_800
"""1970 until before 2038."""
_STEP = DAY // 2


@dataclass(frozen=True, order=True)
class Change:
    """A clock is set. The offsets are seconds ahead of UTC."""

    at: int
    before: int
    after: int
    zone: str

    @property
    def key(self) -> tuple[int, int, int]:
        """What all zones share that change alike at that instant."""
        return self.at, self.before, self.after

    @property
    def shape(self) -> tuple[int, int, int]:
        """How far it is set, at which time of day, and where that lies in the minute."""
        return self.after - self.before, (self.at + self.before) % DAY, self.after % 60


def zones() -> list[str]:
    """Every zone of tzdata, without the ones that are only other names for the build's own clock."""
    return sorted(available_timezones() - {"localtime", "posixrules"})


@cache
def changes(zone: str, first: int = FIRST, last: int = LAST) -> tuple[Change, ...]:
    """Every change of a zone's clock."""
    found: list[Change] = []
    offset = local_offset(zone, first)
    for at in range(first, last, _STEP):
        then = local_offset(zone, at + _STEP)
        if then != offset:
            found.append(Change(_instant(zone, at, at + _STEP, then), offset, then, zone))
            offset = then
    return tuple(found)


def by_shape(all_changes: Iterable[Change], each: int) -> list[Change]:
    """At most `each` changes of every distinct shape, spread over its years."""
    shapes: dict[tuple[int, int, int], dict[tuple[int, int, int], Change]] = defaultdict(dict)
    for change in sorted(all_changes):
        shapes[change.shape].setdefault(change.key, change)
    chosen: list[Change] = []
    for alike in shapes.values():
        known = list(alike.values())
        count = min(each, len(known))
        # The first, the last, and others between them.
        chosen += [known[index * (len(known) - 1) // max(count - 1, 1)] for index in range(count)]
    return sorted(chosen)


def _instant(zone: str, before: int, after: int, offset: int) -> int:
    while after - before > 1:
        middle = (before + after) // 2
        if local_offset(zone, middle) == offset:
            after = middle
        else:
            before = middle
    return after
