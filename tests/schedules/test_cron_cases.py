"""The situations of the design: what a clock change, a calendar or a far date must come out as."""

from __future__ import annotations

from datetime import datetime

import pytest

from workfleet.model.cron import Cron


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def following(cron: Cron, after: str, count: int) -> list[str]:
    """The next runs as UTC text, without the seconds where they are zero."""
    found: list[str] = []
    at: int | None = ms(after)
    for _ in range(count):
        assert at is not None
        at = cron.next(at)
        if at is None:
            break
        found.append(utc(at))
    return found


def utc(at_ms: int) -> str:
    text = datetime.fromtimestamp(at_ms / 1000, tz=datetime.fromisoformat("1970-01-01T00:00Z").tzinfo)
    return text.strftime("%Y-%m-%dT%H:%M:%SZ").replace(":00Z", "Z")


NEW_YORK, BERLIN, HAVANA, LORD_HOWE = "America/New_York", "Europe/Berlin", "America/Havana", "Australia/Lord_Howe"

FIXED = [
    # The local time does not exist: at the first valid instant.
    (NEW_YORK, "30 2 * * *", "2026-03-07T12:00Z", ["2026-03-08T07:00Z", "2026-03-09T06:30Z"]),
    (NEW_YORK, "0,15,30 2 * * *", "2026-03-07T12:00Z", ["2026-03-08T07:00Z", "2026-03-09T06:00Z"]),
    # Two of its times meet at that instant: once.
    (NEW_YORK, "0 2,3 * * *", "2026-03-07T12:00Z", ["2026-03-08T07:00Z", "2026-03-09T06:00Z"]),
    (NEW_YORK, "15 30 2 * * *", "2026-03-07T12:00Z", ["2026-03-08T07:00Z", "2026-03-09T06:30:15Z"]),
    (BERLIN, "30 2 29 3 *", "2026-01-01T00:00Z", ["2026-03-29T01:00Z", "2027-03-29T00:30Z"]),
    # The local hour repeats: once, the first time.
    (NEW_YORK, "30 1 * * *", "2026-10-31T12:00Z", ["2026-11-01T05:30Z", "2026-11-02T06:30Z"]),
    (NEW_YORK, "30 30 1 * * *", "2026-10-31T12:00Z", ["2026-11-01T05:30:30Z", "2026-11-02T06:30:30Z"]),
    (NEW_YORK, "0-59 1 1 11 *", "2026-11-01T05:58Z", ["2026-11-01T05:59Z", "2027-11-01T05:00Z"]),
    # Midnight does not exist.
    (HAVANA, "0 0 * * *", "2026-03-07T12:00Z", ["2026-03-08T05:00Z", "2026-03-09T04:00Z"]),
    ("America/Asuncion", "30 0 * * *", "2023-09-30T12:00Z", ["2023-10-01T04:00Z", "2023-10-02T03:30Z"]),
    # Midnight happens twice.
    (HAVANA, "30 0 * * *", "2026-10-31T12:00Z", ["2026-11-01T04:30Z", "2026-11-02T05:30Z"]),
    # Half an hour.
    (LORD_HOWE, "15 2 * * *", "2026-10-02T20:00Z", ["2026-10-03T15:30Z", "2026-10-04T15:15Z"]),
    (LORD_HOWE, "45 1 * * *", "2027-04-02T20:00Z", ["2027-04-03T14:45Z", "2027-04-04T15:15Z"]),
    # Two hours, in the Antarctic.
    ("Antarctica/Troll", "30 1,2 * * *", "2026-03-28T12:00Z", ["2026-03-29T01:00Z", "2026-03-29T23:30Z"]),
    # A day that never was: Samoa went from the 29th to the 31st of December 2011.
    (
        "Pacific/Apia",
        "0 12 * * *",
        "2011-12-29T12:00Z",
        ["2011-12-29T22:00Z", "2011-12-30T10:00Z", "2011-12-30T22:00Z"],
    ),
    ("Pacific/Apia", "0 0 * * *", "2011-12-29T08:00Z", ["2011-12-29T10:00Z", "2011-12-30T10:00Z", "2011-12-31T10:00Z"]),
    # Standard time changed without daylight saving, by half an hour and for good.
    ("Asia/Pyongyang", "45 23 * * *", "2018-05-03T16:00Z", ["2018-05-04T15:00Z", "2018-05-05T14:45Z"]),
    # A clock that was 44 minutes and 30 seconds behind until 1972: a minute expression stays on the minute.
    ("Africa/Monrovia", "10 0 * * *", "1972-01-06T02:00Z", ["1972-01-07T00:45Z", "1972-01-08T00:10Z"]),
    ("Africa/Monrovia", "0 10 0 * * *", "1972-01-06T02:00Z", ["1972-01-07T00:44:30Z", "1972-01-08T00:10Z"]),
]

FREE = [
    (NEW_YORK, "*/30 * * * *", "2026-03-08T06:00Z", ["2026-03-08T06:30Z", "2026-03-08T07:00Z", "2026-03-08T07:30Z"]),
    (NEW_YORK, "*/30 * * * *", "2026-11-01T05:00Z", ["2026-11-01T05:30Z", "2026-11-01T06:00Z", "2026-11-01T06:30Z"]),
    (NEW_YORK, "0 * * * *", "2026-11-01T04:00Z", ["2026-11-01T05:00Z", "2026-11-01T06:00Z", "2026-11-01T07:00Z"]),
    (NEW_YORK, "30 */1 * * *", "2026-11-01T04:30Z", ["2026-11-01T05:30Z", "2026-11-01T06:30Z", "2026-11-01T07:30Z"]),
    (NEW_YORK, "*/30 * 1 * * *", "2026-11-01T06:59Z", ["2026-11-01T06:59:30Z", "2026-11-02T06:00Z"]),
    # Wildcard minutes of an hour that does not exist: there are none.
    (NEW_YORK, "*/30 2 * * *", "2026-03-07T12:00Z", ["2026-03-09T06:00Z", "2026-03-09T06:30Z"]),
    # The only hour of the year that matches comes twice, and the next one is a year away.
    (NEW_YORK, "*/30 1 1 11 *", "2026-11-01T05:00Z", ["2026-11-01T05:30Z", "2026-11-01T06:00Z", "2026-11-01T06:30Z"]),
    (LORD_HOWE, "*/15 * * * *", "2027-04-03T14:40Z", ["2027-04-03T14:45Z", "2027-04-03T15:00Z", "2027-04-03T15:15Z"]),
]


@pytest.mark.parametrize(("zone", "expression", "after", "expected"), FIXED + FREE)
def test_clock_changes(zone: str, expression: str, after: str, expected: list[str]) -> None:
    cron = Cron.parse(expression, timezone=zone)
    assert following(cron, after, len(expected)) == expected
    # And the same backwards.
    last = cron.next(ms(expected[-1]))
    assert last is not None
    back = [last]
    for _ in expected:
        previous = cron.previous(back[-1])
        assert previous is not None
        back.append(previous)
    assert [utc(at) for at in reversed(back[1:])] == expected


@pytest.mark.parametrize(
    ("gap", "overlap", "zone", "expression", "after", "expected"),
    [
        ("skip", "first", NEW_YORK, "30 2 * * *", "2026-03-07T12:00Z", ["2026-03-09T06:30Z"]),
        ("skip", "first", HAVANA, "0 0 * * *", "2026-03-07T12:00Z", ["2026-03-09T04:00Z"]),
        ("skip", "first", NEW_YORK, "0 2,3 * * *", "2026-03-07T12:00Z", ["2026-03-08T07:00Z", "2026-03-09T06:00Z"]),
        ("skip", "first", BERLIN, "30 2 29 3 *", "2026-01-01T00:00Z", ["2027-03-29T00:30Z"]),
        ("shift", "second", NEW_YORK, "30 1 * * *", "2026-10-31T12:00Z", ["2026-11-01T06:30Z", "2026-11-02T06:30Z"]),
        ("shift", "both", NEW_YORK, "30 1 * * *", "2026-10-31T12:00Z", ["2026-11-01T05:30Z", "2026-11-01T06:30Z"]),
        # The policies are for fixed times: a rhythm follows the clock whatever they say.
        ("skip", "second", NEW_YORK, "*/30 * * * *", "2026-11-01T05:00Z", ["2026-11-01T05:30Z", "2026-11-01T06:00Z"]),
    ],
)
def test_policies(gap: str, overlap: str, zone: str, expression: str, after: str, expected: list[str]) -> None:
    cron = Cron.parse(expression, timezone=zone, dst_gap=gap, dst_overlap=overlap)  # type: ignore[arg-type]
    assert following(cron, after, len(expected)) == expected


@pytest.mark.parametrize(
    ("expression", "after", "expected"),
    [
        # Day of month OR day of week when both are restricted, AND when one of them begins with * or with +.
        ("0 0 13 * FRI", "2026-02-01T00:00Z", ["2026-02-06", "2026-02-13", "2026-02-20", "2026-02-27", "2026-03-06"]),
        ("0 0 13 * +FRI", "2026-02-01T00:00Z", ["2026-02-13", "2026-03-13", "2026-11-13"]),
        ("0 0 */2 * MON", "2026-02-01T00:00Z", ["2026-02-09", "2026-02-23", "2026-03-09"]),
        ("0 0 1-31 * MON", "2026-02-01T00:00Z", ["2026-02-02", "2026-02-03", "2026-02-04"]),
        ("0 0 ? * MON", "2026-02-01T00:00Z", ["2026-02-02", "2026-02-09"]),
        ("0 0 L * *", "2027-12-31T12:00Z", ["2028-01-31", "2028-02-29", "2028-03-31"]),
        ("0 0 L-2 * *", "2026-01-31T12:00Z", ["2026-02-26", "2026-03-29"]),
        ("0 0 L-30 * *", "2026-01-31T12:00Z", ["2026-03-01", "2026-05-01", "2026-07-01"]),
        ("0 0 LW * *", "2026-01-31T12:00Z", ["2026-02-27", "2026-03-31", "2026-04-30", "2026-05-29"]),
        ("0 0 15W * *", "2026-01-31T12:00Z", ["2026-02-16", "2026-03-16", "2026-04-15", "2026-05-15"]),
        ("0 0 1W * *", "2026-01-15T12:00Z", ["2026-02-02", "2026-03-02", "2026-04-01", "2026-05-01"]),
        ("0 0 1W * *", "2026-07-15T12:00Z", ["2026-08-03", "2026-09-01"]),
        ("0 0 31W * *", "2026-01-15T12:00Z", ["2026-01-30", "2026-03-31", "2026-05-29", "2026-07-31"]),
        ("0 0 * * MON#2", "2026-01-15T12:00Z", ["2026-02-09", "2026-03-09"]),
        ("0 0 * * 5L", "2026-01-15T12:00Z", ["2026-01-30", "2026-02-27"]),
        ("0 0 * * FRI#L,MON#1", "2026-01-15T12:00Z", ["2026-01-30", "2026-02-02", "2026-02-27", "2026-03-02"]),
        ("0 0 * * SUN#5", "2026-01-15T12:00Z", ["2026-03-29", "2026-05-31"]),
        ("0 0 * * FRI-SUN", "2026-01-15T12:00Z", ["2026-01-16", "2026-01-17", "2026-01-18", "2026-01-23"]),
        ("0 0 31 * *", "2026-01-31T12:00Z", ["2026-03-31", "2026-05-31", "2026-07-31"]),
        ("0 0 29 2 *", "2096-03-01T00:00Z", ["2104-02-29", "2108-02-29"]),
        ("0 0 * 2 MON#5", "2024-03-01T00:00Z", ["2044-02-29", "2072-02-29"]),
        ("@weekly", "2026-01-15T12:00Z", ["2026-01-18", "2026-01-25"]),
        ("@yearly", "2026-01-15T12:00Z", ["2027-01-01", "2028-01-01"]),
    ],
)
def test_days(expression: str, after: str, expected: list[str]) -> None:
    found = following(Cron.parse(expression), after, len(expected))
    assert [text.removesuffix("T00:00Z") for text in found] == expected


def test_day_steps_are_calendar_steps() -> None:
    """Every 2nd day at 09:00 stays at 09:00 local through both changes, never + 24 h."""
    cron = Cron.parse("0 9 */2 3,4 *", timezone=BERLIN)
    assert following(cron, "2026-03-26T00:00Z", 4) == [
        "2026-03-27T08:00Z",
        "2026-03-29T07:00Z",
        "2026-03-31T07:00Z",
        "2026-04-01T07:00Z",
    ]


def test_years() -> None:
    cron = Cron.parse("0 0 12 1 1 * 2027,2030-2032/2")
    assert following(cron, "2026-01-01T00:00Z", 9) == ["2027-01-01T12:00Z", "2030-01-01T12:00Z", "2032-01-01T12:00Z"]
    assert cron.next(ms("2032-01-01T12:00Z")) is None
    assert cron.previous(ms("2027-01-01T12:00Z")) is None
    assert Cron.parse("0 0 0 1 1 * 2020").next(ms("2026-01-01T00:00Z")) is None


def test_first_and_last_instants() -> None:
    cron = Cron.parse("* * * * * *", timezone="Pacific/Kiritimati")
    last = ms("2199-12-31T09:59:59Z")
    assert cron.next(last - 1000) == last
    assert cron.next(last) is None
    assert cron.next(10**18) is None
    assert cron.previous(10**18) == last
    first = cron.next(-(10**18))
    assert first == ms("1970-01-01T10:40:00Z")  # local 1970 began there late, at UTC-10:40
    assert cron.previous(first) is None
    assert cron.previous(-(10**18)) is None
    assert Cron.parse("* * * * * *", timezone="Asia/Tokyo").next(-(10**18)) == ms("1969-12-31T15:00:00Z")


def test_a_wait_longer_than_2_to_the_31_milliseconds() -> None:
    start = ms("2026-01-01T00:00Z")
    due = Cron.parse("0 0 29 2 *").next(start)
    assert due == ms("2028-02-29T00:00Z")
    assert due - start > 2**31


def test_next_is_after_and_previous_before_also_between_whole_seconds() -> None:
    cron = Cron.parse("* * * * * *")
    assert [cron.next(at) for at in (999, 1000, 1001, 1999)] == [1000, 2000, 2000, 2000]
    assert [cron.previous(at) for at in (3000, 2999, 2001, 2000)] == [2000, 2000, 2000, 1000]


def test_backwards_into_the_first_of_two_equal_hours() -> None:
    """From 01:15 of the second hour: 01:30 of the first, not last year's."""
    cron = Cron.parse("*/60 30 1 1 11 *", timezone=NEW_YORK)
    assert cron.previous(ms("2026-11-01T06:15Z")) == ms("2026-11-01T05:30Z")


def test_between_is_half_open_and_limited() -> None:
    cron = Cron.parse("0 * * * *")
    start, end = ms("2026-01-01T01:00Z"), ms("2026-01-01T04:00Z")
    assert [utc(at) for at in cron.between(start, end)] == [
        "2026-01-01T01:00Z",
        "2026-01-01T02:00Z",
        "2026-01-01T03:00Z",
    ]
    assert len(list(cron.between(start, end, limit=2))) == 2
    assert list(cron.between(end, start)) == []


def test_the_host_zone_never_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "Pacific/Apia")
    time.tzset()
    try:
        assert following(Cron.parse("0 3 * * *", timezone=BERLIN), "2026-07-01T00:00Z", 1) == ["2026-07-01T01:00Z"]
        assert following(Cron.parse("0 3 * * *"), "2026-07-01T00:00Z", 1) == ["2026-07-01T03:00Z"]
    finally:
        monkeypatch.undo()
        time.tzset()
