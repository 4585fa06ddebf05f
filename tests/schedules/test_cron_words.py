"""What a person is shown: an expression in words, and its next runs with what daylight saving did to them."""

from __future__ import annotations

from datetime import datetime

import pytest

from workfleet.model.cron import Cron, occurrences


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("* * * * *", "every minute"),
        ("* * * * * *", "every second"),
        ("*/10 * * * * *", "every 10 seconds"),
        ("*/5 * * * *", "every 5 minutes"),
        ("0 */5 * * * *", "every 5 minutes"),
        ("*/7 * * * *", "at minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every hour"),
        ("0 * * * *", "every hour"),
        ("0 */2 * * *", "every 2 hours"),
        ("5 * * * *", "at minute 5 of every hour"),
        ("0 9-17 * * 1-5", "at minute 0 of hours 9 to 17 on Monday to Friday"),
        ("*/30 9-17 * * *", "every 30 minutes in hours 9 to 17"),
        ("15,45 * * * * *", "at seconds 15 and 45 of every minute"),
        ("*/30 5 * * * *", "every 30 seconds in minute 5 of every hour"),
        ("*/30 * 3 * * *", "every 30 seconds in hour 3"),
        ("0 3 * * *", "at 03:00 every day"),
        ("15 30 3 * * *", "at 03:30:15 every day"),
        ("0,30 8,20 * * *", "at 08:00, 08:30, 20:00 and 20:30 every day"),
        ("@weekly", "at 00:00 on Sunday"),
        ("0 0 * * 6,0", "at 00:00 on Saturday and Sunday"),
        ("0 0 * * 2,4,5,6", "at 00:00 on Tuesday and Thursday to Saturday"),
        ("0 0 1,15 * *", "at 00:00 on days 1 and 15 of the month"),
        ("0 0 L * *", "at 00:00 on the last day of the month"),
        (
            "0 0 L-1,L-3 * *",
            "at 00:00 on the day 1 day before the last and the day 3 days before the last of the month",
        ),
        ("0 0 LW * *", "at 00:00 on the last weekday of the month"),
        ("0 0 15W * *", "at 00:00 on the weekday nearest to day 15 of the month"),
        ("0 0 * * MON#2,FRI#L", "at 00:00 on the second Monday of the month and the last Friday of the month"),
        ("0 0 13 * FRI", "at 00:00 on day 13 of the month or on Friday"),
        ("0 0 13 * +FRI", "at 00:00 on day 13 of the month, only if it is Friday"),
        ("0 0 1-31 * MON", "at 00:00 every day"),
        ("0 0 * 6-8,12 *", "at 00:00 in June to August and December"),
        ("0 0 29 2 *", "at 00:00 on day 29 of the month in February"),
        ("0 0 12 1 1 * 2027,2029", "at 12:00 on day 1 of the month in January 2027 and 2029"),
        ("0 0 12 * * * 2027", "at 12:00 in 2027"),
    ],
)
def test_words(expression: str, words: str) -> None:
    assert Cron.parse(expression, timezone="Europe/Berlin").describe() == f"{words}, Europe/Berlin"


def test_occurrences_say_what_a_gap_did() -> None:
    cron = Cron.parse("30 2 * * *", timezone="Europe/Berlin")
    rows = [(row.utc, row.local, row.note) for row in occurrences(cron, ms("2026-03-28T00:00Z"), 3)]
    assert rows == [
        ("2026-03-28T01:30:00Z", "2026-03-28T02:30:00+01:00", None),
        (
            "2026-03-29T01:00:00Z",
            "2026-03-29T03:00:00+02:00",
            "02:30 does not exist that day (the clock goes from 02:00 to 03:00); it runs at the first valid time",
        ),
        ("2026-03-30T00:30:00Z", "2026-03-30T02:30:00+02:00", None),
    ]


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        ("first", [("2026-10-25T00:30:00Z", "+02:00", "it runs the first time only")]),
        ("second", [("2026-10-25T01:30:00Z", "+01:00", "it runs the second time only")]),
        (
            "both",
            [
                ("2026-10-25T00:30:00Z", "+02:00", "it runs both times, this is the first"),
                ("2026-10-25T01:30:00Z", "+01:00", "it runs both times, this is the second"),
            ],
        ),
    ],
)
def test_occurrences_say_what_an_overlap_did(overlap: str, expected: list[tuple[str, str, str]]) -> None:
    cron = Cron.parse("30 2 * * *", timezone="Europe/Berlin", dst_overlap=overlap)  # type: ignore[arg-type]
    rows = occurrences(cron, ms("2026-10-24T12:00Z"), len(expected) + 1)
    for row, (utc, offset, runs) in zip(rows, expected, strict=False):
        assert (row.utc, row.local) == (utc, f"2026-10-25T02:30:00{offset}")
        assert row.note == f"02:30 comes twice because the clock is set back; {runs}"
        assert row.at_ms == ms(utc)
    assert rows[-1].note is None


def test_a_day_left_out_is_named() -> None:
    cron = Cron.parse("0 12 * * *", timezone="Pacific/Apia")
    notes = [row.note for row in occurrences(cron, ms("2011-12-29T12:00Z"), 3)]
    assert notes == [
        None,
        "12:00 does not exist that day (the clock goes from 00:00 to 00:00 on 2011-12-31); "
        "it runs at the first valid time",
        None,
    ]


def test_a_rhythm_is_not_moved_and_has_no_note() -> None:
    cron = Cron.parse("*/30 * * * *", timezone="Europe/Berlin")
    for after in ("2026-03-29T00:00Z", "2026-10-24T23:00Z"):
        assert [row.note for row in occurrences(cron, ms(after), 8)] == [None] * 8


def test_fewer_occurrences_where_the_expression_ends() -> None:
    assert [row.utc for row in occurrences(Cron.parse("0 0 0 1 1 * 2027"), 0, 5)] == ["2027-01-01T00:00:00Z"]
    assert occurrences(Cron.parse("0 0 * * *"), 0, 0) == []
