"""A second slow answer: a clock on the wall that is looked at minute by minute, or second by second, as a person would
who waits for the time to come. What an expression means comes from the oracle; nothing comes from the engine.

A `Watch` is made once for a piece of time in a zone and asked about many expressions. It must begin and end farther
away from a change of the clock than the clock is set."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date, timedelta

from tests.schedules.cron_oracle import Oracle, local_offset

DAY = 86_400
EPOCH_DAY = date(1970, 1, 1)


class Watch:
    """What the clock of a zone shows from `start` until before `end`, in instants (seconds)."""

    def __init__(self, zone: str, start: int, end: int, *, by_second: bool = False) -> None:
        self.by_second = by_second
        offsets = [local_offset(zone, at) for at in (start, end)]
        # Minutes, or what divides them where the zone is not whole minutes away from UTC.
        step = self.step = 1 if by_second else math.gcd(60, start, *offsets)
        self.shown = [(at, at + local_offset(zone, at)) for at in range(start, end, step)]
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        for at, local in self.shown:
            self.first.setdefault(local, at)
            self.last[local] = at
        self.days = sorted({local // DAY for _, local in self.shown})
        self.skipped = list(self._skipped())

    def due(self, oracle: Oracle, *, gap: str = "shift", overlap: str = "first") -> list[int]:
        """The instants at which an expression is due."""
        fits = self._fits(oracle)
        if not oracle.fixed:
            return [at for at, local in self.shown if local in fits]
        chosen = {"first": self.first, "second": self.last}.get(overlap)
        found = {at for at, local in self.shown if local in fits and (chosen is None or chosen[local] == at)}
        if gap == "shift":
            found |= {at for at, missing in self.skipped if not fits.isdisjoint(missing)}
        return sorted(found)

    def _fits(self, oracle: Oracle) -> set[int]:
        """The local times of these days that an expression names."""
        assert oracle.seconds_given == self.by_second
        sets = oracle.sets
        times = [
            (hour * 60 + minute) * 60 + second
            for hour in sets["hour"]
            for minute in sets["minute"]
            for second in sets["second"]
        ]
        days = [day for day in range(self.days[0], self.days[-1] + 1) if oracle.day_matches(_date(day))]
        return {day * DAY + time for day in days for time in times}

    def _skipped(self) -> Iterator[tuple[int, range]]:
        """Where the clock jumps forward: the first instant afterwards at which a run can be, and the times left out."""
        grid = 1 if self.by_second else 60
        before: int | None = None
        for at, local in self.shown:
            if before is not None and local > before + self.step:
                landing = next(at_ for at_, local_ in self.shown if at_ >= at and local_ % grid == 0)
                yield landing, range(before + self.step, local, self.step)
            before = local


def _date(day: int) -> date:
    return EPOCH_DAY + timedelta(days=day)
