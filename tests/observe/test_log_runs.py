"""Runs that end faster than anybody reads have no line each."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from workfleet import events
from workfleet.observe.logs.options import LogOptions
from workfleet.observe.logs.setup import configure_logging
from workfleet.observe.logs.subscriber import LogSubscriber


@contextmanager
def logged(**options: Any) -> Iterator[list[dict[str, Any]]]:
    """What was logged as JSON, once the body has ended."""
    stream, documents = io.StringIO(), list[dict[str, Any]]()
    setup = configure_logging(LogOptions(format="json", **options), stream=stream)
    try:
        yield documents
    finally:
        setup.close()
        documents += map(json.loads, stream.getvalue().splitlines())


def ended(number: int, second: int, **changes: Any) -> events.JobSettled:
    usual: dict[str, Any] = {"name": "thumbnail", "state": "completed", "outcome": "completed", **changes}
    return events.JobSettled(
        id=f"j{number}",
        queue="media",
        attempt=1,
        duration_ms=1,
        ended_ms=second * 1000 + 999,
        **usual,
    )


def test_of_the_runs_that_end_well_in_a_second_the_first_hundred_have_lines() -> None:
    with logged() as found:
        hear = LogSubscriber().route(events.JobSettled)
        for second in (1_800_000_000, 1_800_000_001, 1_800_000_000, 1_799_990_000):
            for number in range(150):
                hear(ended(number, second))
            hear(ended(150, second, state="failed", outcome="failed", error="ValueError: no"))
            hear(ended(151, second, state="delayed", outcome="timed_out"))
    first = [*(f"j{number}" for number in range(100)), None, "j150", "j151"]
    # A second that is told of again, because the store had the ends in another order, gets no further lines; a clock
    # that was set back begins anew.
    assert [line.get("job_id") for line in found] == [*first, *first, "j150", "j151", *first]
    (told, *_) = [line for line in found if "job_id" not in line]
    assert [told[name] for name in ("event", "level", "logger", "most")] == [
        "job.unlogged",
        "info",
        "workfleet.job",
        100,
    ]


def test_jobs_that_nobody_knows_have_a_line_a_name_in_ten_seconds_with_a_count() -> None:
    unknown = {"state": "delayed", "outcome": "unknown_job", "error": "no handler", "delay_ms": 30_000}
    with logged() as found:
        hear = LogSubscriber().route(events.JobSettled)
        for second in (100, 109, 110):
            for number in range(10):
                hear(ended(number, second, **unknown))
        hear(ended(50, 110, **unknown, name="other"))
        hear(ended(51, 110, **{**unknown, "state": "failed"}))
        hear(ended(52, 50, **unknown))  # a clock that was set back
    assert [(line["job_id"], line.get("alike")) for line in found] == [
        ("j0", None),
        ("j0", 19),
        ("j50", None),
        ("j51", None),
        ("j52", 9),
    ]
    assert found[1]["message"] == (
        "thumbnail unknown_job after 1 ms: no handler; again in 30000 ms (and 19 more like it since the last such line)"
    )


def test_a_stack_is_the_lines_exception_and_no_field() -> None:
    with logged() as found:
        LogSubscriber().route(events.WorkerBlocked)(
            events.WorkerBlocked(worker="w", index=0, pid=1, blocked_ms=5_000, jobs=("a (1)",), active=1, stack="a\nb")
        )
    (line,) = found
    assert (line["exception"], line["jobs"], line["level"]) == ("a\nb", ["a (1)"], "warning")
    assert "stack" not in line
    assert line["message"] == "the event loop of worker 0 (process 1) is blocked for 5000 ms; it runs a (1)"


@pytest.mark.parametrize(("level", "lines"), [("debug", 150), ("warning", 0)])
def test_at_level_debug_all_runs_have_lines_and_above_info_none(level: str, lines: int) -> None:
    with logged(levels={"workfleet.job": level}) as found:
        hear = LogSubscriber().route(events.JobSettled)
        for number in range(150):
            hear(ended(number, 1_800_000_000))
    assert [line["event"] for line in found] == ["job.settled"] * lines
