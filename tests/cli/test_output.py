"""Tables, instants and text on the terminal."""

from __future__ import annotations

import json

import pytest

from workfleet.cli.documents import stored
from workfleet.cli.output import at, count, indented, near, plain, rough, took, write_facts, write_json, write_table


def test_a_table_in_a_pipe_is_aligned_and_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    write_table(("NAME", ">COUNT", "NOTE"), [["a", "7", "x" * 500], ["longer", "1000", ""]])
    head, first, second = capsys.readouterr().out.splitlines()
    assert head == "NAME    COUNT  NOTE"
    assert first == f"a           7  {'x' * 500}"
    assert second == "longer   1000"


def test_facts_are_aligned_and_empty_ones_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    write_facts([("a", "1"), ("nothing", ""), ("store", "x\ny")])
    assert capsys.readouterr().out == "a      1\nstore  x\\ny\n"


def test_json_is_one_ascii_line(capsys: pytest.CaptureFixture[str]) -> None:
    write_json({"name": "é\n\x1b[31m\udc80"})
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert out.isascii()
    assert json.loads(out) == {"name": "é\n\x1b[31m\udc80"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é", "plain é"),
        ("a\tb\nc", "a\\tb\\nc"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("a\u202eb", "a\\u202eb"),
        ("\udc80", "\\udc80"),
    ],
)
def test_control_characters_are_spelled_out(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_longer_text_keeps_its_lines() -> None:
    assert indented("a\n\tb\x1b") == "  a\n  \tb\\x1b"


@pytest.mark.parametrize(
    ("ms", "shown"), [(0, "0s"), (999, "0s"), (59_999, "59s"), (60_000, "1m"), (7_199_999, "1h"), (864_000_000, "10d")]
)
def test_rough_durations(ms: int, shown: str) -> None:
    assert rough(ms) == shown


@pytest.mark.parametrize(("ms", "shown"), [(5, "5 ms"), (999, "999 ms"), (4_230, "4.2 s"), (61_000, "1m")])
def test_how_long_something_took(ms: int, shown: str) -> None:
    assert took(ms) == shown


def test_instants_and_their_distance() -> None:
    now = 1_767_225_600_000
    assert at(now + 999) == "2026-01-01T00:00:00Z"
    assert at(None) == near(None, now) == ""
    assert near(now + 3_600_000, now) == "in 1h"
    assert near(now - 61_000, now) == "1m ago"


def test_counted_nouns() -> None:
    assert [count(number, "job") for number in (0, 1, 2)] == ["0 jobs", "1 job", "2 jobs"]


@pytest.mark.parametrize(
    ("data", "document"),
    [
        (None, {"v": None}),
        (b'{"a":[1]}', {"v": {"a": [1]}}),
        (b"{oops", {"v": None, "v_text": "{oops"}),
        (b"\xff", {"v": None, "v_text": "\\xff"}),
        (b"NaN", {"v": None, "v_text": "NaN"}),
        (b"[" * 100_000, {"v": None, "v_text": "[" * 100_000}),
    ],
)
def test_stored_values_that_are_no_json_are_kept_and_marked(data: bytes | None, document: dict[str, object]) -> None:
    assert stored("v", data) == document
