"""The engine beside the slow answers around one change of a clock. Each comparison returns what differs, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import cache
from itertools import islice, pairwise, takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim

from tests.schedules.cron_changes import Change, changes
from tests.schedules.cron_oracle import EPOCH, Oracle, local_at
from tests.schedules.cron_watch import Watch
from workfleet.model.cron import Cron, CronError

HOUR, DAY = 3_600, 86_400
AROUND = 26 * HOUR
"""More than the largest change of a clock, on both sides."""
FOREVER = 2**53
POLICIES = [(gap, overlap) for gap in ("shift", "skip") for overlap in ("first", "second", "both")]


@cache
def oracle(expression: str) -> Oracle:
    return Oracle(expression)


def parsed(expression: str, zone: str, gap: str = "shift", overlap: str = "first") -> Cron | None:
    """None for a drawn expression whose day can never be."""
    try:
        return Cron.parse(expression, timezone=zone, dst_gap=gap, dst_overlap=overlap)  # type: ignore[arg-type]
    except CronError as error:
        if "never" not in error.reason:
            raise
        return None


def by_minute(change: Change, expressions: Sequence[str], policies: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Minute by minute, forwards; and backwards the same list."""
    start, end = _around(change, AROUND)
    watch = Watch(change.zone, start - DAY, end + DAY)
    yield from _compared(change, watch, expressions, policies, start, end)


def in_every_zone(alike: Sequence[Change], expressions: Sequence[str]) -> Iterator[str]:
    """Minute by minute for half a day on both sides, in all zones that change alike at one instant: what the clock
    shows is looked at once."""
    far = abs(alike[0].after - alike[0].before)
    start, end = _around(alike[0], far + 12 * HOUR)
    watch = Watch(alike[0].zone, start - far - HOUR, end + far + HOUR)
    for expression in expressions:
        expected = [at for at in watch.due(oracle(expression)) if start <= at < end]
        for change in alike:
            yield from _both_ways(
                change, expression, Cron.parse(expression, timezone=change.zone), expected, start, end
            )


def by_second(change: Change, expressions: Sequence[str], policies: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Second by second, from before the change until the clock shows new times again."""
    reach = abs(change.after - change.before) + HOUR
    start, end = _around(change, reach)
    watch = Watch(change.zone, start - reach, end + reach, by_second=True)
    yield from _compared(change, watch, expressions, policies, start, end)


def with_cronsim(change: Change, expressions: Sequence[str], count: int, before_s: int = DAY // 2) -> Iterator[str]:
    """The next runs from before the change on and before the next one; cronsim looks 50 years ahead.

    Where a midnight is left out, cronsim 2.8 lets a rhythm run at the first instant of the day: not compared."""
    there = local_at(change.zone, change.at - before_s).replace(second=0)
    start = round((there - EPOCH).total_seconds())
    until = min((each.at for each in changes(change.zone, change.at + 1, change.at + 400 * DAY)), default=FOREVER)
    no_midnight = -(change.at + change.before) % DAY < change.after - change.before
    for expression in expressions:
        cron = parsed(expression, change.zone)
        if cron is None or (no_midnight and not oracle(expression).fixed):
            continue
        theirs = (round((at - EPOCH).total_seconds()) for at in islice(CronSim(expression, there), count))
        expected = list(takewhile(lambda at: at < until, theirs))
        limit = len(expected) if until == FOREVER else count
        found = [at // 1000 for at in cron.between((start + 1) * 1000, until * 1000, limit=limit)]
        if found != expected:
            yield _difference(change, expression, "cronsim", found, expected)


def increasing(zone: str, expression: str, start: int, end: int) -> Iterator[str]:
    """Every run of a zone's history comes after the one before, and a daily one once for every date that there is."""
    cron = Cron.parse(expression, timezone=zone)
    runs = list(cron.between(start * 1000, end * 1000))
    yield from (f"{zone} {expression}: {later} after {at}" for at, later in pairwise(runs) if later <= at)
    tz = ZoneInfo(zone)
    dates = [datetime.fromtimestamp(at / 1000, tz).date() for at in runs]
    uneven = [later for at, later in pairwise(dates) if later - at != timedelta(days=1)]
    # A day that is left out has its run at the first instant of the next one: a leap, and mostly a second run that day.
    left_out = sum(change.after - change.before >= DAY for change in changes(zone, start, end))
    if not left_out <= len(uneven) <= 2 * left_out:
        yield f"{zone} {expression}: not a run a day before {', '.join(map(str, uneven[:3]))}"


def _around(change: Change, reach: int) -> tuple[int, int]:
    """On whole minutes."""
    return (change.at - reach) // 60 * 60, (change.at + reach) // 60 * 60


def _compared(
    change: Change,
    watch: Watch,
    expressions: Sequence[str],
    policies: Sequence[tuple[str, str]],
    start: int,
    end: int,
) -> Iterator[str]:
    for expression in expressions:
        for gap, overlap in policies:
            cron = parsed(expression, change.zone, gap, overlap)
            if cron is None:
                continue
            due = watch.due(oracle(expression), gap=gap, overlap=overlap)
            expected = [at for at in due if start <= at < end]
            yield from _both_ways(change, f"{expression} ({gap}, {overlap})", cron, expected, start, end)


def _both_ways(change: Change, expression: str, cron: Cron, expected: list[int], start: int, end: int) -> Iterator[str]:
    found = [at // 1000 for at in cron.between(start * 1000, end * 1000)]
    if found != expected:
        yield _difference(change, expression, "the clock", found, expected)
    back: list[int] = []
    at = cron.previous(end * 1000)
    while at is not None and at >= start * 1000 and len(back) <= len(expected):
        back.append(at // 1000)
        at = cron.previous(at)
    if back[::-1] != expected:
        yield _difference(change, f"{expression} backwards", "the clock", back[::-1], expected)


def _difference(change: Change, expression: str, who: str, found: list[int], expected: list[int]) -> str:
    more, less = sorted(set(found) - set(expected)), sorted(set(expected) - set(found))
    told = [f"{len(each)} {what}: {_instants(each)}" for each, what in ((more, "too many"), (less, "missing")) if each]
    where = f"{change.zone} at {_instants([change.at])} ({change.before:+} to {change.after:+})"
    return f"{where}: {expression}: beside {who}: {'; '.join(told) or 'another order'}"


def _instants(instants: list[int]) -> str:
    return ", ".join((EPOCH + timedelta(seconds=at)).strftime("%Y-%m-%dT%H:%M:%SZ") for at in instants[:3])
