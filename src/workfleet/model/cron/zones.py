"""Time zones as spans of constant offset: what a wall clock shows, which of it is repeated and which is left out.

The spans come from asking zoneinfo for offsets, a window of 388 days at a time, so that no private format is read and
the whole of tzdata's future is covered. All values are whole seconds. Nothing here knows of cron.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from difflib import get_close_matches
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY_S = 86_400

_WINDOW_BITS = 25
# Changes of the clock are at least 6.9 days apart in tzdata (1970 to 2100): a look every four days finds each of them.
_PROBE_S = 4 * DAY_S
# More than the largest change of a clock (24 h: the date line), so that a window knows what its neighbours repeat.
_MARGIN_S = 3 * DAY_S
# Of what datetime can hold in every zone.
_LAST = round(datetime(9999, 12, 30, tzinfo=UTC).timestamp())


class ZoneError(ValueError):
    """A time zone that cannot be used; the message says which and what to do."""


class Span(NamedTuple):
    """From `start` until before `end` (instants) the clock shows instant + `offset`.

    Local times below `seen` have been shown, or passed over, before this span: a clock set back shows them again, and a
    clock set forward leaves out those from `seen` up to its first local time. Local times from `again` on come once
    more."""

    start: int
    end: int
    offset: int
    seen: int
    again: int


class Zone:
    """One IANA time zone. Use `zone(name)`, which keeps them."""

    __slots__ = ("_tz", "_windows", "name")

    def __init__(self, name: str, tz: tzinfo) -> None:
        self.name = name
        self._tz = tz
        self._windows: dict[int, tuple[Span, ...]] = {}

    def at(self, instant: int) -> Span:
        """The span that holds an instant. Spans also end where nothing happens to the clock."""
        window = instant >> _WINDOW_BITS
        spans = self._windows.get(window)
        if spans is None:
            spans = self._windows[window] = self._build(window << _WINDOW_BITS, (window + 1) << _WINDOW_BITS)
        for span in spans:
            if instant < span[1]:
                return span
        raise AssertionError("the spans of a window cover it")

    def instant_of(self, local: int) -> tuple[int, bool]:
        """The first instant at which the clock shows a local time, and whether it ever does.

        A time that the clock passes over is answered by the first instant after it."""
        at = local - DAY_S  # a clock is never a whole day ahead of UTC
        while local >= (span := self.at(at)).end + span.offset:
            at = span.end
        return max(local - span.offset, span.start), local >= span.start + span.offset

    def local(self, instant: int) -> datetime:
        """The instant as a datetime with this zone."""
        return (EPOCH + timedelta(seconds=instant)).astimezone(self._tz)

    def _build(self, low: int, high: int) -> tuple[Span, ...]:
        changes = self._changes(low - _MARGIN_S, high + _MARGIN_S)
        ends = [start for start, _ in changes[1:]] + [high + _MARGIN_S]
        spans: list[Span] = []
        for index, (start, offset) in enumerate(changes):
            end = ends[index]
            seen = max((ends[i] + changes[i][1] for i in range(index)), default=start + offset)
            again = min((at + later for at, later in changes[index + 1 :]), default=end + offset)
            # A span cut at the window's edge has seen what lies before the cut, and what lies after it comes again.
            if start < low:
                seen = max(seen, low + offset)
            if end > high:
                again = min(again, high + offset)
            if max(start, low) < min(end, high):
                spans.append(Span(max(start, low), min(end, high), offset, seen, again))
        return tuple(spans)

    def _changes(self, low: int, high: int) -> list[tuple[int, int]]:
        """(instant, offset from then on), the first one at `low`."""
        # A hundred times for a window, so by the fastest way there is.
        tz, shown = self._tz, datetime.fromtimestamp
        offset = shown(low, tz).utcoffset()
        found = [(low, _seconds(offset))]
        at, high = low, min(high, _LAST)
        while at < high and tz is not UTC:
            probe = min(at + _PROBE_S, high)
            then = shown(probe, tz).utcoffset()
            if then != offset:
                found.append((self._first_with(then, at, probe), _seconds(then)))
                offset = then
            at = probe
        return found

    def _first_with(self, offset: timedelta | None, before: int, after: int) -> int:
        """The instant in (before, after] at which the clock changed to `offset`."""
        while after - before > 1:
            middle = (before + after) // 2
            if datetime.fromtimestamp(middle, self._tz).utcoffset() == offset:
                after = middle
            else:
                before = middle
        return after


def _seconds(offset: timedelta | None) -> int:
    assert offset is not None  # every IANA zone has one
    return offset.days * DAY_S + offset.seconds


@lru_cache(maxsize=1_024)
def zone(name: str) -> Zone:
    """A zone by its IANA name. "UTC" needs no database. Raises ZoneError."""
    return Zone(name, UTC if name == "UTC" else _load(name))


def _load(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    # A folder of the database ("America") is an OSError, "../x" and NUL a ValueError.
    except (ZoneInfoNotFoundError, ValueError, OSError):
        known = available_timezones()
        if not known:
            raise ZoneError(
                f"time zone {name!r} cannot be loaded: this machine has no time zone database; pip install tzdata"
            ) from None
        by_fold = {each.casefold(): each for each in known}
        close = [by_fold[each] for each in get_close_matches(name.casefold(), by_fold, n=1, cutoff=0.8)]
        hint = f"did you mean {close[0]!r}?" if close else "use an IANA name such as 'Europe/Berlin' or 'UTC'"
        raise ZoneError(f"there is no time zone {name!r}: {hint}") from None
