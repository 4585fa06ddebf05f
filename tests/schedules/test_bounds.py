"""`start`, `end` and dates as `skip_on`: which slots of a timing count."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from workfleet.model.timing import Every, Timing, TimingError, timing

BERLIN, ST_JOHNS = "Europe/Berlin", "America/St_Johns"


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def utc(at: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at)).strftime("%Y-%m-%dT%H:%MZ")


def both_ways(when: Timing, after: str, before: str) -> list[str]:
    """The slots between two instants, which must be the same backwards."""
    forwards, at = list[int](), when.next_after(ms(after))
    while at is not None and at < ms(before):
        forwards.append(at)
        at = when.next_after(at)
    backwards, at = list[int](), when.previous_before(ms(before))
    while at is not None and at > ms(after):
        backwards.append(at)
        at = when.previous_before(at)
    assert backwards[::-1] == forwards
    return [utc(each) for each in forwards]


def test_slots_count_from_the_start_on_and_before_the_end() -> None:
    start, end = datetime(2026, 1, 3, tzinfo=UTC), datetime(2026, 1, 5, tzinfo=UTC)
    for bounded in (timing(cron="0 0 * * *", start=start, end=end), timing(every="1d", start=start, end=end)):
        assert both_ways(bounded, "2026-01-01T00:00Z", "2026-02-01T00:00Z") == [
            "2026-01-03T00:00Z",
            "2026-01-04T00:00Z",
        ]
        assert bounded.next_after(ms("2026-01-04T00:00Z")) is None
        assert bounded.previous_before(ms("2026-01-03T00:00Z")) is None
    # The grid stays where it is: a start does not move it.
    grid = timing(every="1h", start=datetime(2026, 1, 1, 0, 40, tzinfo=UTC))
    assert both_ways(grid, "2026-01-01T00:00Z", "2026-01-01T03:00Z") == ["2026-01-01T01:00Z", "2026-01-01T02:00Z"]


def test_an_instant_without_an_offset_is_local() -> None:
    bounded = timing(cron="0 * * * *", timezone=BERLIN, start="2026-07-01T12:00", end="2026-07-01T14:00")
    assert both_ways(bounded, "2026-07-01T00:00Z", "2026-07-02T00:00Z") == ["2026-07-01T10:00Z", "2026-07-01T11:00Z"]


def test_dates_are_left_out_by_the_clock_of_the_zone() -> None:
    holidays = [date(2026, 12, 25), "2026-12-26"]
    at_night = timing(cron="30 0 * * *", timezone=BERLIN, skip_on=holidays)
    assert both_ways(at_night, "2026-12-23T12:00Z", "2026-12-27T12:00Z") == ["2026-12-23T23:30Z", "2026-12-26T23:30Z"]
    # An interval has the zone for its dates only.
    every = timing(every="12h", timezone=BERLIN, skip_on=set(holidays))
    assert both_ways(every, "2026-12-24T12:00Z", "2026-12-27T12:00Z") == ["2026-12-27T00:00Z"]


@pytest.mark.parametrize("skipped", ["2006-10-28", "2006-10-29"])
@pytest.mark.parametrize("options", [{"cron": "*/30 * * * *"}, {"every": "30m"}], ids=["cron", "every"])
def test_where_a_date_begins_and_ends_and_begins_again(skipped: str, options: Any) -> None:
    """The clock of St John's went at 00:01 back to 23:01 of the day before: midnight came twice, and 23:30 too."""
    window = "2006-10-27T00:00Z", "2006-10-31T12:00Z"
    whole = both_ways(timing(**options, timezone=ST_JOHNS), *window)
    kept = [
        at for at in whole if datetime.fromisoformat(at).astimezone(ZoneInfo(ST_JOHNS)).date().isoformat() != skipped
    ]
    assert len(whole) - len(kept) == 49
    assert both_ways(timing(**options, timezone=ST_JOHNS, skip_on=[skipped]), *window) == kept


def test_a_long_holiday_and_nothing_behind_it() -> None:
    days = [date(2026, 1, 1) + timedelta(days=n) for n in range(2_000)]
    daily = timing(cron="0 12 * * *", skip_on=days)
    assert daily.next_after(ms("2026-01-01T00:00Z")) == ms("2031-06-24T12:00Z")
    over = timing(cron="0 0 12 * 1 * 2026", skip_on=days)
    assert over.next_after(ms("2026-01-01T00:00Z")) is None


def test_it_is_stored_and_read_back() -> None:
    made = timing(
        every="1h", start=datetime(2026, 1, 1, tzinfo=UTC), skip_on=["2026-12-26", "2026-12-25"], timezone=BERLIN
    )
    assert msgspec.json.encode(made).decode() == (
        '{"kind":"interval","every_ms":3600000,"bounds":{"start_ms":1767225600000,'
        '"skip_on":["2026-12-25","2026-12-26"],"timezone":"Europe/Berlin"}}'
    )
    back = msgspec.json.decode(msgspec.json.encode(made), type=Every)
    assert back == made
    assert hash(back) == hash(made)
    # Nothing is stored of what was not said, and a zone only where dates need it.
    assert timing(every="1h", timezone=BERLIN) == Every(3_600_000)
    assert timing(every="1h", skip_on=[], timezone=BERLIN) == Every(3_600_000)
    assert timing(every="1h", skip_on=lambda day: day.weekday() == 6) == Every(3_600_000)


@pytest.mark.parametrize(
    ("options", "field", "reason"),
    [
        ({"every": "1h", "start": "soon"}, "start", "write a date"),
        ({"every": "1h", "end": "1969-01-01"}, "end", "between 1970 and 9998"),
        ({"every": "1h", "start": "2026-01-01", "end": "2026-01-01"}, "end", "not after start"),
        ({"at": "2026-01-01", "start": "2026-01-01"}, "start", "without cron= or every="),
        ({"end": "2026-01-01"}, "end", "without cron= or every="),
        ({"at": "2026-01-01", "skip_on": ["2026-01-01"]}, "skip_on", "without cron= or every="),
        ({"every": "1h", "skip_on": "2026-12-25"}, "skip_on", "several dates"),
        ({"every": "1h", "skip_on": date(2026, 12, 25)}, "skip_on", "several dates"),
        ({"every": "1h", "skip_on": ["christmas"]}, "skip_on", "'christmas' is no date"),
        ({"every": "1h", "skip_on": [datetime(2026, 12, 25, tzinfo=UTC)]}, "skip_on", "is no date"),
        ({"every": "1h", "skip_on": [20261225]}, "skip_on", "is no date"),
        ({"every": "1h", "skip_on": 3}, "skip_on", "not iterable"),
        ({"every": "1h", "skip_on": [date.fromordinal(730_000 + n) for n in range(10_001)]}, "skip_on", "function"),
        ({"every": "1h", "skip_on": ["2026-12-25"], "timezone": "Mars/X"}, "timezone", "Mars/X"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], field: str, reason: str) -> None:
    with pytest.raises(TimingError) as caught:
        timing(**options)
    assert caught.value.field == field
    assert reason in str(caught.value)
