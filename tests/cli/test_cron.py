"""`workfleet cron`: words, rows, notes, and errors that point at the place."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from workfleet.cli.main import main

BERLIN = ["--timezone", "Europe/Berlin"]


def rows(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, str | None]]:
    assert main(["cron", *arguments, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_rows_say_what_the_clock_did(capsys: pytest.CaptureFixture[str]) -> None:
    assert rows(capsys, "30 2 * * *", *BERLIN, "--after", "2026-03-28T00:00Z", "-n", "3") == [
        {"utc": "2026-03-28T01:30:00Z", "local": "2026-03-28T02:30:00+01:00", "note": None},
        {
            "utc": "2026-03-29T01:00:00Z",
            "local": "2026-03-29T03:00:00+02:00",
            "note": "02:30 does not exist that day (the clock goes from 02:00 to 03:00); "
            "it runs at the first valid time",
        },
        {"utc": "2026-03-30T00:30:00Z", "local": "2026-03-30T02:30:00+02:00", "note": None},
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]),
        (["--dst-gap", "skip"], ["2026-03-30T00:30:00Z", "2026-03-31T00:30:00Z"]),
    ],
)
def test_a_passed_over_time_by_policy(
    options: list[str], expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    # Without an offset the instant is local: 03:00 on the 28th is after that day's run.
    found = rows(capsys, "30 2 * * *", *BERLIN, "--after", "2026-03-28T03:00", "-n", "2", *options)
    assert [row["utc"] for row in found] == expected


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        ("first", ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]),
        ("second", ["2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"]),
        ("both", ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]),
    ],
)
def test_a_repeated_time_by_policy(overlap: str, expected: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(capsys, "30 2 * * *", *BERLIN, "--after", "2026-10-24T12:00", "-n", "2", "--dst-overlap", overlap)
    assert [row["utc"] for row in found] == expected
    assert "comes twice" in str(found[0]["note"])


def test_without_options_it_is_utc_and_from_now_on(capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(capsys, "*/5 * * * *")
    assert len(found) == 10
    instants = [str(row["utc"]) for row in found]
    assert all(earlier < later for earlier, later in pairwise(instants))
    assert found[0]["local"] == instants[0].replace("Z", "+00:00")


def test_people_get_words_and_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cron", "0 0 3 * * MON-FRI", *BERLIN, "--after", "2026-01-01", "-n", "2"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "at 03:00 on Monday to Friday, Europe/Berlin",
        "",
        "UTC                   LOCAL                      NOTE",
        "2026-01-01T02:00:00Z  2026-01-01T03:00:00+01:00",
        "2026-01-02T02:00:00Z  2026-01-02T03:00:00+01:00",
    ]


def test_the_name_spreads_h(capsys: pytest.CaptureFixture[str]) -> None:
    found = {
        name: rows(capsys, "H H * * *", "--name", name, "--after", "2026-01-01", "-n", "1")[0]["utc"]
        for name in ("nightly", "weekly", "nightly")
    }
    assert found == {"nightly": "2026-01-01T00:59:00Z", "weekly": "2026-01-01T13:08:00Z"}


def test_an_expression_that_is_over_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cron", "0 0 0 1 1 * 2020"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "it is never due again"


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (
            ["0 25 * * *"],
            [
                "Error: cron expression '0 25 * * *': hour (field 2, column 3) '25': 25 is out of range "
                "(allowed: 0-23)",
                "  0 25 * * *",
                "    ^^",
            ],
        ),
        (
            ["0 0 30 2 *"],
            [
                "Error: cron expression '0 0 30 2 *': day of month (field 3, column 5) '30': no month and year of this "
                "expression ever has such a day, so it would never run",
                "  0 0 30 2 *",
                "      ^^",
            ],
        ),
        (
            ["H * * * *"],
            [
                "Error: cron expression 'H * * * *': minute (field 1, column 1) 'H': H spreads by the schedule's name, "
                "and none was given (--name on the command line) (allowed: 0-59)",
                "  H * * * *",
                "  ^",
            ],
        ),
        (
            ["0 3 * * *", "--timezone", "Europe/Berlun"],
            [
                "Error: cron expression '0 3 * * *': timezone 'Europe/Berlun': there is no time zone 'Europe/Berlun': "
                "did you mean 'Europe/Berlin'?"
            ],
        ),
        (
            ["0 3 * * *", "--after", "tomorrow"],
            [
                "Error: --after 'tomorrow': write a date and time such as '2026-03-29T02:30' or '2026-03-29T00:30:00Z'",
            ],
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) and len(value) < 4 else None,
)
def test_a_mistake_is_pointed_at(arguments: list[str], lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cron", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == lines
