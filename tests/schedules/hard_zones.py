"""The table of hard zones in docs/cron.md, made by the slow answers alone.

`python -m tests.schedules.hard_zones` writes it anew; tests/docs/test_cron_md.py fails while it is stale, and holds the
engine to every row."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from tests.schedules.cron_changes import DAY, Change, changes
from tests.schedules.cron_oracle import EPOCH, Oracle
from tests.schedules.cron_watch import Watch

PAGE = Path(__file__).parents[2] / "docs" / "cron.md"
BEGIN, END = "<!-- hard zones: written by `python -m tests.schedules.hard_zones` -->", "<!-- end of hard zones -->"
TITLES = ("zone", "what is hard there", "the clock goes", "a job at", "runs at", "by the other policies")

# Of years that are over: what is to come, the next tzdata may change, and with it the page.
HARD = (
    ("Europe/Berlin", "2025-03-30", "an hour is left out at night"),
    ("Europe/Berlin", "2025-10-26", "an hour comes twice"),
    ("America/New_York", "2025-03-09", "the same at another time of day"),
    ("America/New_York", "2025-11-02", "the same"),
    ("America/Havana", "2025-03-09", "midnight does not exist"),
    ("America/Havana", "2025-11-02", "the first hour of a day comes twice"),
    ("America/Asuncion", "2023-10-01", "midnight does not exist"),
    ("America/Sao_Paulo", "2017-10-15", "midnight does not exist"),
    ("Asia/Beirut", "2024-03-31", "midnight does not exist"),
    ("Africa/Cairo", "2024-11-01", "a day begins, ends and begins again"),
    ("Atlantic/Azores", "2025-10-26", "midnight comes twice"),
    ("America/St_Johns", "2006-04-02", "the clock is set at 00:01"),
    ("America/St_Johns", "2006-10-29", "set at 00:01, back into the day before"),
    ("Australia/Lord_Howe", "2024-10-06", "half an hour is left out"),
    ("Australia/Lord_Howe", "2024-04-07", "half an hour comes twice"),
    ("Antarctica/Troll", "2024-03-31", "two hours are left out"),
    ("Antarctica/Troll", "2024-10-27", "two hours come twice"),
    ("Europe/Dublin", "2024-10-27", "winter is the daylight saving time, and negative"),
    ("Africa/Casablanca", "2024-03-10", "the clock is set back for Ramadan, in no regular year"),
    ("Asia/Gaza", "2023-04-29", "dates that are decided from year to year"),
    ("Asia/Tehran", "2022-03-22", "the last change of a zone that has none now"),
    ("Asia/Kathmandu", "1986-01-01", "a quarter of an hour, for good"),
    ("Asia/Pyongyang", "2018-05-05", "half an hour to midnight, for good"),
    ("America/Caracas", "2007-12-09", "half an hour back, for good"),
    ("Africa/Monrovia", "1972-01-07", "44 minutes and 30 seconds"),
    ("Pacific/Apia", "2011-12-30", "a whole day is left out"),
    ("Pacific/Kwajalein", "1993-08-21", "a whole day is left out"),
)


@dataclass(frozen=True)
class Row:
    """A change, a daily job in the middle of what it leaves out or repeats, and the instants that it comes to."""

    change: Change
    why: str
    expression: str
    start: int
    end: int
    runs: dict[tuple[str, str], list[int]]
    """By policy, from half a day before the change until half a day after it, or what it leaves out."""


def rows() -> Iterator[Row]:
    """Every row. Raises AssertionError where the two slow answers are not one."""
    for zone, day, why in HARD:
        middle = round((datetime.fromisoformat(f"{day}T00:00Z") - EPOCH).total_seconds())
        (change,) = changes(zone, middle - 2 * DAY, middle + 2 * DAY)
        low, high = sorted((change.at + change.before, change.at + change.after))
        at = (low + high) // 2 // 60 * 60
        expression = f"{at // 60 % 60} {at // 3600 % 24} * * *"
        reach = DAY // 2 - 60
        start, end = (change.at - reach) // 60 * 60, (change.at + reach) // 60 * 60
        watch, oracle = Watch(zone, start - 2 * DAY, end + 2 * DAY), Oracle(expression)
        runs = {}
        for gap in ("shift", "skip"):
            for overlap in ("first", "second", "both"):
                found = oracle.due(zone, start, end, gap=gap, overlap=overlap)
                seen = [each for each in watch.due(oracle, gap=gap, overlap=overlap) if start <= each < end]
                assert found == seen, (zone, day, found, seen)
                runs[gap, overlap] = found
        yield Row(change, why, expression, start, end, runs)


def table() -> str:
    """The table as Markdown."""
    lines = [_line(TITLES), _line(["---"] * len(TITLES)), *(_line(_cells(row)) for row in rows())]
    return "\n".join(lines)


def page(text: str) -> str:
    """A page with the table in its place."""
    head, rest = text.split(BEGIN)
    return f"{head}{BEGIN}\n\n{table()}\n\n{END}{rest.split(END)[1]}"


def _cells(row: Row) -> list[str]:
    change = row.change
    minute, hour, *_ = row.expression.split()
    forward = change.after > change.before
    default = row.runs["shift", "first"]
    others = {
        f'{name}="{value}"': row.runs[policy]
        for name, value, policy in (
            ("dst_gap", "skip", ("skip", "first")),
            ("dst_overlap", "second", ("shift", "second")),
            ("dst_overlap", "both", ("shift", "both")),
        )
        if forward is (name == "dst_gap")
    }
    told = [f"`{policy}`: {_instants(runs, change)}" for policy, runs in others.items()]
    clock = f"{_shown(change.at + change.before)} → {_shown(change.at + change.after, change.at + change.before)}"
    return [
        change.zone,
        row.why,
        clock,
        f"{int(hour):02}:{int(minute):02}",
        _instants(default, change),
        "; ".join(told),
    ]


def _instants(runs: list[int], change: Change) -> str:
    """Local and in UTC: "03:00 (01:00Z)"."""
    if not runs:
        return "not that day"
    return ", ".join(f"{_time(at + (change.before if at < change.at else change.after))} ({_time(at)}Z)" for at in runs)


def _shown(local: int, beside: int | None = None) -> str:
    at = EPOCH + timedelta(seconds=local)
    if beside is not None and at.date() == (EPOCH + timedelta(seconds=beside)).date():
        return _time(local)
    return f"{at.date()} {_time(local)}"


def _time(local: int) -> str:
    at = EPOCH + timedelta(seconds=local)
    return at.strftime("%H:%M:%S" if at.second else "%H:%M")


def _line(cells: list[str] | tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
    print(f"written: {PAGE.name}", file=sys.stderr)
