"""The next runs of an expression as a person reads them: in UTC, on the wall clock, and what daylight saving did."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from .search import Cron
from .zones import EPOCH, Span


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One run. `utc` ends with Z, `local` with the zone's offset; `note` says where daylight saving moved or doubled
    it."""

    at_ms: int
    utc: str
    local: str
    note: str | None


def occurrences(cron: Cron, after_ms: int, n: int) -> list[Occurrence]:
    """The first `n` runs after an instant; fewer where the expression ends."""
    found: list[Occurrence] = []
    at = cron.next(after_ms)
    while at is not None and len(found) < n:
        found.append(_occurrence(cron, at // 1000))
        at = cron.next(at)
    return found


def _occurrence(cron: Cron, instant: int) -> Occurrence:
    utc = (EPOCH + timedelta(seconds=instant)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Occurrence(instant * 1000, utc, cron.zone.local(instant).isoformat(), _note(cron, instant))


def _note(cron: Cron, instant: int) -> str | None:
    span = cron.zone.at(instant)
    local = instant + span.offset
    if instant < span.start + 60 and span.seen < span.start + span.offset:
        missing = cron.gap_before(span)
        if missing is not None:
            return _gap_note(span, missing)
    if not cron.pattern.fixed:
        return None
    if local >= span.again:
        which = "first"
    elif local < span.seen:
        which = "second"
    else:
        return None
    runs = f"both times, this is the {which}" if cron.dst_overlap == "both" else f"the {which} time only"
    return f"{_clock(local)} comes twice because the clock is set back; it runs {runs}"


def _gap_note(span: Span, missing: int) -> str:
    change = f"the clock goes from {_clock(span.seen, missing)} to {_clock(span.start + span.offset, missing)}"
    return f"{_clock(missing)} does not exist that day ({change}); it runs at the first valid time"


def _clock(local: int, day_of: int | None = None) -> str:
    """HH:MM (with seconds where there are some), with its date where that differs from another local time's."""
    at = EPOCH + timedelta(seconds=local)
    time = at.strftime("%H:%M:%S" if at.second else "%H:%M")
    if day_of is None or (EPOCH + timedelta(seconds=day_of)).date() == at.date():
        return time
    return f"{time} on {at.date().isoformat()}"
