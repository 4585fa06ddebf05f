"""Changes of the clock at the edges of the windows in which a zone is computed, which real zones hit once in a century.

The expected runs come from a clock that is watched minute by minute, as a cron daemon would: a third way.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

import pytest

from workfleet.model.cron import Cron, Zone
from workfleet.model.cron.parse import parse

EDGE = 45 << 25  # the start of a window, in 2017, on a whole minute
HOUR = 3_600
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class OneChange(tzinfo):
    """A zone whose offset changes once."""

    def __init__(self, change: int, before: int, after: int) -> None:
        self.change, self.before, self.after = change, before, after

    def offset(self, instant: int) -> int:
        return self.before if instant < self.change else self.after

    def fromutc(self, dt: datetime) -> datetime:
        instant = (dt.replace(tzinfo=UTC) - EPOCH) // timedelta(seconds=1)
        found = dt + timedelta(seconds=self.offset(instant))
        return found.replace(
            fold=int(self.before > self.after and 0 <= instant - self.change < self.before - self.after)
        )

    def utcoffset(self, dt: datetime | None) -> timedelta:
        assert dt is not None
        local = (dt.replace(tzinfo=UTC, fold=0) - EPOCH) // timedelta(seconds=1)
        late = local >= self.change + max(self.before, self.after) or (dt.fold and local >= self.change + self.after)
        return timedelta(seconds=self.after if late else self.before)

    def dst(self, dt: datetime | None) -> None:
        return None

    def tzname(self, dt: datetime | None) -> None:
        return None


def watched(zone: OneChange, minutes: set[int], fixed: bool, start: int, end: int) -> list[int]:
    """Runs at the given minutes of each hour, by watching the clock."""
    found = []
    high = start + zone.offset(start) - 60
    for instant in range(start, end, 60):
        local = instant + zone.offset(instant)
        shown = range(high + 60, local + 60, 60) if fixed else [local]
        if any(each // 60 % 60 in minutes for each in shown):
            found.append(instant)
        high = max(high, local)
    return found


@pytest.mark.parametrize("where", [-HOUR, -1800, -60, 0, 60])
@pytest.mark.parametrize(
    ("before", "after"), [(0, HOUR), (HOUR, 0), (-HOUR // 2, 0), (0, -HOUR // 2), (-10 * HOUR, 14 * HOUR)]
)
def test_changes_near_the_edge_of_a_window(where: int, before: int, after: int) -> None:
    tz = OneChange(EDGE + where, before, after)
    start, end = EDGE - 28 * HOUR, EDGE + 28 * HOUR
    for expression, minutes, fixed in (
        ("7,40 0-23 * * *", {7, 40}, True),
        ("0 0-23 * * *", {0}, True),
        ("7,40 * * * *", {7, 40}, False),
    ):
        cron = Cron(expression, "x", "shift", "first", None, parse(expression), Zone("x", tz))
        expected = watched(tz, minutes, fixed, start, end)
        assert [at // 1000 for at in cron.between(start * 1000, end * 1000)] == expected
        back = [end * 1000]
        while (previous := cron.previous(back[-1])) is not None and previous >= start * 1000:
            back.append(previous)
        assert [at // 1000 for at in back[:0:-1]] == expected
        second = Cron(expression, "x", "shift", "second", None, parse(expression), Zone("x", tz))
        both = Cron(expression, "x", "shift", "both", None, parse(expression), Zone("x", tz))
        once, twice = (set(each.between(start * 1000, end * 1000)) for each in (second, both))
        repeated = [at for at in twice if tz.change <= at // 1000 < tz.change + before - after]
        first_times = {at - (before - after) * 1000 for at in repeated} if fixed else set()
        assert once == twice - first_times


def test_the_spans_around_a_change_that_meets_the_edge() -> None:
    zone = Zone("x", OneChange(EDGE, HOUR, 0))
    last, first = zone.at(EDGE - 1), zone.at(EDGE)
    assert (last.end, last.offset, last.again) == (EDGE, HOUR, EDGE)
    assert (first.start, first.offset, first.seen) == (EDGE, 0, EDGE + HOUR)
    # Cut off in the middle of the repeated hour, the next window still knows that it was shown before.
    cut = Zone("x", OneChange(EDGE - 1800, HOUR, 0)).at(EDGE)
    assert (cut.start, cut.seen) == (EDGE, EDGE - 1800 + HOUR)
