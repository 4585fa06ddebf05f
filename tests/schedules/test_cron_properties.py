"""What holds for every expression, zone and instant."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

from hypothesis import example, given, settings
from hypothesis import strategies as st

from workfleet.model.cron import Cron, CronError

ZONES = sorted(available_timezones())
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_MS = 7_258_118_400_000  # 2200-01-01


def items(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    steps = st.integers(1, high - low + 1)
    spans = st.tuples(number, number).map(sorted)
    return st.one_of(
        st.just("*"),
        steps.map(lambda step: f"*/{step}"),
        number.map(str),
        spans.map(lambda span: f"{span[0]}-{span[1]}"),
        st.builds(lambda span, step: f"{span[0]}-{span[1]}/{step}", spans, steps),
    )


def fields(low: int, high: int, *, extra: tuple[str, ...] = ()) -> st.SearchStrategy[str]:
    plain = st.lists(items(low, high), min_size=1, max_size=3).map(",".join)
    return st.one_of(plain, st.sampled_from(extra)) if extra else plain


def expressions() -> st.SearchStrategy[str]:
    five = st.tuples(
        fields(0, 59, extra=("H", "H/20")),
        fields(0, 23, extra=("H", "H(0-7)")),
        fields(1, 31, extra=("*", "L", "LW", "15W", "L-2", "1,L")),
        fields(1, 12, extra=("*",)),
        fields(0, 6, extra=("*", "MON#1", "5L", "+1-5")),
    ).map(" ".join)
    return st.one_of(five, five.flatmap(lambda rest: fields(0, 59).map(lambda second: f"{second} {rest}")))


def parsed(expression: str, zone: str, gap: str, overlap: str) -> Cron | None:
    try:
        return Cron.parse(expression, timezone=zone, dst_gap=gap, dst_overlap=overlap, hash_name="a")  # type: ignore[arg-type]
    except CronError as error:
        # The only thing that can be wrong with a drawn expression: 31 February and the like.
        if "never" not in error.reason:
            raise
        return None


POLICIES = (st.sampled_from(["shift", "skip"]), st.sampled_from(["first", "second", "both"]))


@settings(max_examples=150, deadline=None)
@given(expressions(), st.sampled_from(ZONES), *POLICIES, st.integers(-86_400_000, LAST_MS))
@example("0 0 * * *", "America/Havana", "shift", "first", 1_772_928_000_000)
@example("30 1 * * *", "America/New_York", "shift", "both", 1_793_511_000_000)
def test_strictly_increasing_and_the_same_backwards(
    expression: str, zone: str, gap: str, overlap: str, after: int
) -> None:
    cron = parsed(expression, zone, gap, overlap)
    if cron is None:
        return
    found = [after]
    for _ in range(5):
        at = cron.next(found[-1])
        if at is None:
            break
        assert at > found[-1]
        assert at % 1000 == 0
        found.append(at)
    runs = found[1:]
    for earlier, later in pairwise(runs):
        assert cron.previous(later) == earlier
        assert cron.next(later - 1) == later
    if runs:
        before = cron.previous(runs[0])
        assert before is None or before <= after


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 1439), st.sampled_from(ZONES), st.integers(0, LAST_MS // 86_400_000 - 40))
@example(30, "America/Havana", 20_520)
@example(150, "Europe/Berlin", 20_540)
@example(1380, "Pacific/Efate", 1423)
def test_a_fixed_time_runs_once_for_each_local_date(minute: int, zone: str, day: int) -> None:
    cron = Cron.parse(f"{minute % 60} {minute // 60} * * *", timezone=zone)
    start = day * 86_400_000
    runs = list(cron.between(start, start + 30 * 86_400_000))
    dates = []
    for at in runs:
        local = (EPOCH + timedelta(milliseconds=at)).astimezone(ZoneInfo(zone))
        # A time that falls into a gap up to midnight (Pacific/Efate, 1973) is run on the next date, for its own.
        before = timedelta(local.hour * 60 + local.minute < minute)
        dates.append(local.date() - before)
    assert dates == sorted(set(dates))
    # Every date is there, but for days that a zone left out altogether.
    assert (
        len(dates) >= (dates[-1] - dates[0]).days + 1 - (zone in ("Pacific/Apia", "Pacific/Kwajalein", "Kwajalein")) * 2
    )


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([1, 5, 10, 15, 30]), st.sampled_from(ZONES), st.integers(86_400_000 * 731, LAST_MS - 10**9))
@example(30, "America/New_York", 1_793_504_000_000)
@example(15, "Australia/Lord_Howe", 1_806_760_000_000)
def test_a_rhythm_keeps_real_time(minutes: int, zone: str, after: int) -> None:
    """`*/n` with n a divisor of every change of the clock: a run every n minutes, whatever the clock does."""
    cron = Cron.parse(f"*/{minutes} * * * *", timezone=zone)
    at = cron.next(after)
    for _ in range(20):
        assert at is not None
        following = cron.next(at)
        assert following is not None
        # Changes by 20 or 45 minutes were made a few times before 2000: the longest step is below two of them.
        assert 0 < following - at <= (minutes * 60_000 if after > 946_684_800_000 else minutes * 120_000)
        at = following
