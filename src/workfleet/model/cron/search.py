"""A cron expression in a time zone: which instants it means, exactly, through every change of the clock.

Instants are integer milliseconds UTC. The search walks the zone's spans of constant offset, in which a local time and
an instant differ by a constant; so instants come out in order and once by construction. What daylight saving does is
decided in two places only: which part of a span's local times counts (`_local_range`), and the one extra instant at the
start of a span whose clock was set forward (`_after_gap`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, get_args

from .days import LAST_DAY
from .describe import describe
from .faults import CronError
from .parse import Pattern, parse
from .zones import DAY_S, Span, Zone, ZoneError, zone

DstGap = Literal["shift", "skip"]
DstOverlap = Literal["first", "second", "both"]

_GAPS: tuple[str, ...] = get_args(DstGap)
_OVERLAPS: tuple[str, ...] = get_args(DstOverlap)
# A clock is at most 24 h away from UTC.
_FLOOR = -DAY_S
_CEILING = (LAST_DAY + 2) * DAY_S
_FAR_S = 3 * DAY_S
_NEAR_S = 2 * DAY_S


@dataclass(frozen=True, slots=True)
class Cron:
    """When a cron expression is due. Make one with `Cron.parse`; equal expressions share one.

    A *fixed-time* expression (hour, minute and, where given, second begin neither with `*` nor with a stepped `H`) runs
    once for each local time it names: when the clock is set back, at the first of the two (`dst_overlap="second"`: the
    second, `"both"`: both); when the clock is set forward past it, at the first valid time after (`dst_gap="skip"`: not
    at all). Any other expression follows the wall clock in real time: it runs whenever the clock shows a matching time,
    and the two policies do not concern it. Years 1970 to 2199."""

    expression: str
    timezone: str
    dst_gap: DstGap
    dst_overlap: DstOverlap
    hash_name: str | None
    pattern: Pattern = field(repr=False, compare=False)
    zone: Zone = field(repr=False, compare=False)

    @staticmethod
    def parse(
        expression: str,
        *,
        timezone: str = "UTC",
        dst_gap: DstGap = "shift",
        dst_overlap: DstOverlap = "first",
        hash_name: str | None = None,
    ) -> Cron:
        """Compile an expression; the result is kept. `hash_name` is what `H` spreads by.

        Raises CronError, which names the wrong field, its place and what is allowed."""
        return _compile(str(expression), timezone, dst_gap, dst_overlap, hash_name)

    def next(self, after_ms: int) -> int | None:
        """The first instant after `after_ms`, or None when there is none before the year 2200."""
        at = after_ms // 1000 + 1
        if _FLOOR < at < _CEILING:
            # Nearly always the answer lies in the span that holds `at`, away from its beginning and its end.
            start, end, offset, seen, again = self.zone.at(at)
            local = at + offset
            if local >= seen and at >= start + 60:
                found = self.pattern.first_from(local)
                if found is not None and found < again and found < end + offset:
                    return (found - offset) * 1000
        found = self._first_from(at)
        return None if found is None else found * 1000

    def previous(self, before_ms: int) -> int | None:
        """The last instant before `before_ms`, or None when there is none since 1970."""
        found = self._last_until(-(-before_ms // 1000) - 1)
        return None if found is None else found * 1000

    def between(self, start_ms: int, end_ms: int, *, limit: int | None = None) -> Iterator[int]:
        """The instants from `start_ms` (included) to `end_ms` (not included), in order, at most `limit` of them."""
        count, at = 0, self.next(start_ms - 1)
        while at is not None and at < end_ms and (limit is None or count < limit):
            yield at
            count, at = count + 1, self.next(at)

    def describe(self) -> str:
        """The schedule in plain words, such as "at 03:00 on Monday to Friday, Europe/Berlin"."""
        return f"{describe(self.pattern)}, {self.timezone}"

    def gap_before(self, span: Span) -> int | None:
        """The first time of this expression that the clock passed over at the start of a span, as local seconds."""
        if not self.pattern.fixed or self.dst_gap == "skip":
            return None
        missing = self.pattern.first_from(span.seen)
        return missing if missing is not None and missing < span.start + span.offset else None

    def _first_from(self, instant: int) -> int | None:
        at = max(instant, _FLOOR)
        while at < _CEILING:
            span = self.zone.at(at)
            if at < span.start + 60 and (moved := self._after_gap(span)) is not None and moved >= at:
                return moved
            low, high = self._local_range(span)
            low = max(low, at + span.offset)
            found = self.pattern.first_from(low)
            if found is not None and found < high:
                return found - span.offset
            at = span.end
            if found is None or found > high + _FAR_S:
                # Nothing for days, so whole spans can be passed over; but a clock set back shows earlier times again.
                if low > (edge := span.end + span.offset - DAY_S):
                    found = self.pattern.first_from(edge)
                if found is None:
                    return None
                at = max(at, found - _NEAR_S)
        return None

    def _last_until(self, instant: int) -> int | None:
        at = min(instant, _CEILING)
        while at >= _FLOOR:
            span = self.zone.at(at)
            low, high = self._local_range(span)
            high = min(high - 1, at + span.offset)
            found = self.pattern.last_until(high)
            if found is not None and found >= low:
                return found - span.offset
            if (moved := self._after_gap(span)) is not None and moved <= at:
                return moved
            at = span.start - 1
            if found is None or found < low - _FAR_S:
                if high < (edge := span.start + span.offset + DAY_S):
                    found = self.pattern.last_until(edge)
                if found is None:
                    return None
                at = min(at, found + _NEAR_S)
        return None

    def _local_range(self, span: Span) -> tuple[int, int]:
        """The local times of a span that count: [low, high)."""
        start, end, offset, seen, again = span
        low, high = start + offset, end + offset
        if self.pattern.fixed:
            if self.dst_overlap == "first":
                return max(low, seen), high
            if self.dst_overlap == "second":
                return low, min(high, again)
        return low, high

    def _after_gap(self, span: Span) -> int | None:
        """The instant at which times run that the clock passed over just before a span, if there are any."""
        local = span.start + span.offset
        if span.seen >= local or self.gap_before(span) is None:
            return None
        # On the expression's own grid: Liberia's clock once jumped to 00:44:30, where a minute expression means 00:45.
        return span.start + -local % self.pattern.resolution


@lru_cache(maxsize=16_384)
def _compile(expression: str, timezone: str, dst_gap: DstGap, dst_overlap: DstOverlap, hash_name: str | None) -> Cron:
    for option, value, known in (("dst_gap", dst_gap, _GAPS), ("dst_overlap", dst_overlap, _OVERLAPS)):
        if value not in known:
            raise CronError(expression, "no such policy", field=option, text=value, allowed=", ".join(known))
    pattern = parse(expression, hash_name)
    try:
        found = zone(timezone)
    except ZoneError as error:
        raise CronError(expression, str(error), field="timezone", text=timezone) from None
    return Cron(expression, timezone, dst_gap, dst_overlap, hash_name, pattern, found)
