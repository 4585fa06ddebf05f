"""Lines of pool children on their way to the worker: they arrive as they were said, and nothing else is taken for
one."""

from __future__ import annotations

import json
import logging
import os

import pytest

from workfleet.events import ChildPrinted
from workfleet.observe.logs.children import received, sent
from workfleet.observe.logs.options import LogOptions
from workfleet.observe.logs.rendering import LogLine
from workfleet.observe.logs.setup import configure_logging
from workfleet.observe.logs.subscriber import LogSubscriber

from .logging_of import documents, logging_of

LINE = LogLine(
    at_s=1_800_000_000.123,
    level="warning",
    logger="shop",
    message='a\nb "ü" \x1b',
    fields={"job": "thumbnail", "deep": {"size": [640]}, "none": None},
    exception="Traceback\nValueError: no",
)


def printed(line: str) -> ChildPrinted:
    return ChildPrinted(pool="makers", pid=7, stream="stdout", line=line)


def test_a_line_arrives_as_it_was_said() -> None:
    arrived = received(sent(LINE))
    assert arrived is not None
    before, line = arrived
    assert before == ""
    assert line.json() == LINE.json()
    assert "\n" not in sent(LINE)


def test_it_is_told_once_under_its_own_logger_in_its_own_time() -> None:
    with logging_of() as stderr:
        LogSubscriber().route(ChildPrinted)(printed(f"begun {sent(LINE)}"))
        LogSubscriber().route(ChildPrinted)(printed("only printed"))
    before, line, other = documents(stderr.getvalue())
    assert (before["message"], before["event"]) == ("makers[7]: begun ", "child.printed")
    assert line == {**json.loads(LINE.json()), "pool": "makers", "pid": 7}
    assert other["message"] == "makers[7]: only printed"


@pytest.mark.parametrize(
    "text",
    [
        '{"workfleet_child":1',
        '{"workfleet_child":1}',
        '{"workfleet_child":1,"time":"yesterday","level":"info","logger":"x","message":"y"}',
        '{"workfleet_child":[]}trailing',
        '{"time":"2027-01-15T08:00:00Z","level":"info","logger":"x","message":"y"}',
    ],
)
def test_what_looks_like_one_is_told_as_it_was_printed(text: str) -> None:
    assert received(text) is None
    with logging_of() as stderr:
        LogSubscriber().route(ChildPrinted)(printed(text))
    assert [line["line"] for line in documents(stderr.getvalue())] == [text]


def test_a_line_that_is_too_long_for_the_way_is_shortened() -> None:
    fields: dict[str, object] = {f"{'k' * 300}{number}": "ü" * 3_000 for number in range(200)}
    long = LogLine(
        at_s=0, level="info", logger="shop", message="m" * 50_000, fields={"job": "j", **fields}, exception="e" * 50_000
    )
    text = sent(long)
    assert len(text) <= 16_384
    arrived = received(text)
    assert arrived is not None
    assert arrived[1].message.startswith("m")
    assert arrived[1].message.endswith("…")
    assert arrived[1].exception is not None
    assert arrived[1].exception.startswith("…e")
    assert arrived[1].fields["job"] == "j"


def test_a_child_that_redirects_its_output_is_heard_all_the_same() -> None:
    reading, writing = os.pipe()
    setup = configure_logging(LogOptions(level="warning"), to_parent=writing)
    os.close(writing)  # as whoever redirects it does
    logging.getLogger("shop").info("too low")
    logging.getLogger("shop").warning("heard")
    setup.close()
    with os.fdopen(reading) as pipe:
        (text,) = pipe.read().splitlines()
    arrived = received(text)
    assert arrived is not None
    assert arrived[1].message == "heard"
