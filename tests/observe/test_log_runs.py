"""Runs that end faster than anybody reads have no line each."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from workfleet import events
from workfleet.observe.logs.setup import LogOptions, configure_logging
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
    usual: dict[str, Any] = {"state": "completed", "outcome": "completed", **changes}
    return events.JobSettled(
        id=f"j{number}",
        name="thumbnail",
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


@pytest.mark.parametrize(("level", "lines"), [("debug", 150), ("warning", 0)])
def test_at_level_debug_all_runs_have_lines_and_above_info_none(level: str, lines: int) -> None:
    with logged(levels={"workfleet.job": level}) as found:
        hear = LogSubscriber().route(events.JobSettled)
        for number in range(150):
            hear(ended(number, 1_800_000_000))
    assert [line["event"] for line in found] == ["job.settled"] * lines
