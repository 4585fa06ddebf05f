"""When a schedule is due, as frozen values for a store: a cron expression, an interval, one instant, or never.

Each answers `next_after(ms)`; instants are integer milliseconds UTC, and nothing here reads a clock. What a stored
value means never depends on when or where it is asked: two processes compute the same slots.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import ClassVar, Literal, TypeAlias

from msgspec import Struct

from workfleet.errors import UsageError

from .bounds import Bounds, SkipOn, dates_of
from .cron import Cron, DstGap, DstOverlap, Zone, ZoneError, uses_hash, zone
from .durations import DurationLike, duration_ms

TimingKind = Literal["cron", "interval", "once", "manual"]
MIN_INTERVAL_MS = 1_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class TimingError(UsageError, ValueError):
    """A schedule's timing that makes no sense. `field` is the option's name, `value` what it was given."""

    code = "timing_invalid"

    def __init__(self, field: str, value: object, reason: str) -> None:
        self.field, self.value, self.reason = field, value, reason
        super().__init__(f"{field}={value!r}: {reason}")


class CronTiming(Struct, frozen=True, tag_field="kind", tag="cron", omit_defaults=True, dict=True):
    """By a cron expression in a time zone. See `Cron` for the rules; `hash_name` is what `H` spreads by.

    A stored value is not checked when it is read, so that one that this machine cannot use (a newer syntax, a zone that
    it does not know) can still be listed: `cron` and what needs it raise CronError."""

    kind: ClassVar[TimingKind] = "cron"

    expression: str
    timezone: str = "UTC"
    dst_gap: DstGap = "shift"
    dst_overlap: DstOverlap = "first"
    hash_name: str | None = None
    bounds: Bounds | None = None

    @cached_property
    def cron(self) -> Cron:
        """The compiled expression. Raises CronError."""
        return Cron.parse(
            self.expression,
            timezone=self.timezone,
            dst_gap=self.dst_gap,
            dst_overlap=self.dst_overlap,
            hash_name=self.hash_name,
        )

    def next_after(self, ms: int) -> int | None:
        """The first slot after an instant, or None after the last. Raises CronError."""
        return self.cron.next(ms) if self.bounds is None else self.bounds.next_after(ms, self.cron.next)

    def previous_before(self, ms: int) -> int | None:
        """The last slot before an instant, or None before the first. Raises CronError."""
        return self.cron.previous(ms) if self.bounds is None else self.bounds.previous_before(ms, self.cron.previous)


class Every(Struct, frozen=True, tag_field="kind", tag="interval", omit_defaults=True):
    """Every `every_ms` milliseconds: at anchor + offset + n × every, for every whole n, so that it never drifts.

    The default anchor is 1970-01-01T00:00Z: "15m" is due at :00, :15, :30 and :45, in every process alike.
    """

    kind: ClassVar[TimingKind] = "interval"

    every_ms: int
    offset_ms: int = 0
    anchor_ms: int = 0
    bounds: Bounds | None = None

    def __post_init__(self) -> None:
        if self.every_ms < MIN_INTERVAL_MS:
            raise TimingError("every_ms", self.every_ms, f"an interval is at least {MIN_INTERVAL_MS} ms")
        if not 0 <= self.offset_ms < self.every_ms:
            raise TimingError("offset_ms", self.offset_ms, f"an offset is from 0 to below every_ms ({self.every_ms})")

    def next_after(self, ms: int) -> int | None:
        """The first slot after an instant, or None after the last."""
        return self._next(ms) if self.bounds is None else self.bounds.next_after(ms, self._next)

    def previous_before(self, ms: int) -> int | None:
        """The last slot before an instant, or None before the first."""
        return self._previous(ms) if self.bounds is None else self.bounds.previous_before(ms, self._previous)

    def _next(self, ms: int) -> int:
        origin = self.anchor_ms + self.offset_ms
        return origin + ((ms - origin) // self.every_ms + 1) * self.every_ms

    def _previous(self, ms: int) -> int:
        origin = self.anchor_ms + self.offset_ms
        return origin + (ms - origin - 1) // self.every_ms * self.every_ms


class At(Struct, frozen=True, tag_field="kind", tag="once", omit_defaults=True):
    """Once, at an instant."""

    kind: ClassVar[TimingKind] = "once"

    at_ms: int

    def next_after(self, ms: int) -> int | None:
        """The instant while it is to come, then None."""
        return self.at_ms if self.at_ms > ms else None

    def previous_before(self, ms: int) -> int | None:
        """The instant once it has passed, else None."""
        return self.at_ms if self.at_ms < ms else None


class Manual(Struct, frozen=True, tag_field="kind", tag="manual"):
    """Only when somebody triggers it."""

    kind: ClassVar[TimingKind] = "manual"

    def next_after(self, ms: int) -> int | None:
        """None: it is never due by itself."""
        return None

    def previous_before(self, ms: int) -> int | None:
        """None: it was never due by itself."""
        return None


Timing: TypeAlias = CronTiming | Every | At | Manual


def timing(
    *,
    cron: str | None = None,
    every: DurationLike | None = None,
    at: datetime | str | None = None,
    offset: DurationLike | None = None,
    timezone: str = "UTC",
    dst_gap: DstGap = "shift",
    dst_overlap: DstOverlap = "first",
    name: str | None = None,
    start: datetime | str | None = None,
    end: datetime | str | None = None,
    skip_on: SkipOn | None = None,
) -> Timing:
    """The timing that a schedule's options ask for; none of `cron`, `every`, `at`: only when triggered.

    `timezone` is where `cron`, dates, and an instant without an offset are local. `offset` moves the grid of `every`.
    `name` is what the `H` of a cron expression spreads by. Slots count from `start` on, before `end`, and not on the
    dates of `skip_on`; a function as `skip_on` is no part of the timing: see `schedules/due.py`. Raises CronError or
    TimingError, which name the option and its value.
    """
    given = {key: value for key, value in {"cron": cron, "every": every, "at": at}.items() if value is not None}
    if len(given) > 1:
        last = list(given)[-1]
        raise TimingError(last, given[last], f"give only one of {', '.join(given)}")
    if offset is not None and every is None:
        raise TimingError("offset", offset, "it has no meaning without every=")
    if cron is None and dst_gap != "shift":
        raise TimingError("dst_gap", dst_gap, "it has no meaning without cron=")
    if cron is None and dst_overlap != "first":
        raise TimingError("dst_overlap", dst_overlap, "it has no meaning without cron=")
    if cron is None and every is None:
        for option, value in (("start", start), ("end", end), ("skip_on", skip_on)):
            if value is not None:
                raise TimingError(option, value, "it has no meaning without cron= or every=")
        return Manual() if at is None else At(_instant("at", at, timezone))
    bounds = _bounds(start, end, skip_on, timezone)
    if cron is not None:
        # str(): a CronExpression is stored as plain text.
        expression = str(cron)
        hash_name = name if uses_hash(expression) else None
        made = CronTiming(expression, timezone, dst_gap, dst_overlap, hash_name, bounds)
        made.cron  # noqa: B018 - checked now, so that a wrong expression stops the start
        return made
    assert every is not None
    return _interval(every, offset, bounds)


def _bounds(
    start: datetime | str | None, end: datetime | str | None, skip_on: SkipOn | None, timezone: str
) -> Bounds | None:
    start_ms = None if start is None else _instant("start", start, timezone)
    end_ms = None if end is None else _instant("end", end, timezone)
    if start_ms is not None and end_ms is not None and end_ms <= start_ms:
        raise TimingError("end", end, f"it is not after start={start!r}")
    days: tuple[str, ...] = ()
    if skip_on is not None and not callable(skip_on):
        try:
            days = dates_of(skip_on)
        except (ValueError, TypeError) as error:
            raise TimingError("skip_on", skip_on, str(error)) from None
    if start_ms is None and end_ms is None and not days:
        return None
    if days:
        _place(timezone)
    return Bounds(start_ms, end_ms, days, timezone if days else "UTC")


def _interval(every: DurationLike, offset: DurationLike | None, bounds: Bounds | None) -> Every:
    every_ms = _duration("every", every)
    if every_ms < MIN_INTERVAL_MS:
        raise TimingError("every", every, "an interval is at least 1s")
    offset_ms = 0 if offset is None else _duration("offset", offset)
    if offset_ms >= every_ms:
        raise TimingError("offset", offset, f"an offset is shorter than the interval ({every})")
    return Every(every_ms, offset_ms, bounds=bounds)


def _duration(field: str, value: DurationLike) -> int:
    try:
        return duration_ms(value)
    except ValueError as error:
        raise TimingError(field, value, str(error)) from None


def _place(timezone: str) -> Zone:
    try:
        return zone(timezone)
    except ZoneError as error:
        raise TimingError("timezone", timezone, str(error)) from None


def _instant(option: str, at: datetime | str, timezone: str) -> int:
    """Milliseconds of a date and time; without an offset it is local in `timezone`.

    A local time that comes twice is the first of the two, one that does not exist the first valid instant after it.
    """
    if isinstance(at, str):
        try:
            when = datetime.fromisoformat(at.strip())
        except ValueError:
            advice = "write a date and time such as '2026-03-29T02:30' or '2026-03-29T00:30:00Z'"
            raise TimingError(option, at, advice) from None
    else:
        when = at
    if not 1970 <= when.year <= 9998:
        raise TimingError(option, at, "the year is not between 1970 and 9998")
    if when.utcoffset() is not None:
        return (when - _EPOCH) // timedelta(milliseconds=1)
    place = _place(timezone)
    local_ms = (when.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
    seconds, rest = divmod(local_ms, 1000)
    instant, exists = place.instant_of(seconds)
    return instant * 1000 + (rest if exists else 0)
