"""`python -m bench`: its document, its table, its page, and what it says of a wrong command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.bench import Measured
from bench.page import MARKER, write_page

from .fakes import bench_of, breaks, gives, peer_of


def test_the_command_prints_exactly_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    benches = {"fake-bench": bench_of(gives(5.0))}
    peers = {"one": peer_of("one", gives(1.0)), "two": peer_of("two", gives(1.0))}
    assert main(["fake-bench", "--json", "--only", "two", "--runs", "1", "--size", "3"], benches, peers) == 0
    (line,) = capsys.readouterr().out.splitlines()
    printed = json.loads(line)
    assert (printed["peers"], printed["ratio"], printed["runs"], printed["size"]) == ({"two": 1.0}, {"two": 5.0}, 1, 3)


def test_the_command_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    peers = {"one": peer_of("one", gives(1500.0)), "two": peer_of("two", breaks(0, "no word"))}
    assert main(["fake-bench", "--runs", "1"], {"fake-bench": bench_of(gives(4500.0))}, peers) == 0
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "bench       workfleet     beside  theirs                 ratio",
        "fake-bench  4,500 jobs/s  one     1,500 jobs/s           3.00",
        "fake-bench  4,500 jobs/s  two     not measured: no word",
        "  workfleet: extra 45,000",
        "  one: extra 15,000",
        "  median of 1, 7 jobs",
    ]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nothing"], "there is no bench 'nothing', only fake-bench"),
        (["fake-bench", "--runs", "0"], "'0' is no number of 1 or more"),
        (["fake-bench", "--size", "many"], "'many' is no number of 1 or more"),
        (["fake-bench", "--only", "celery"], "bench: fake-bench has no peer celery, only one\n"),
    ],
)
def test_a_wrong_command_is_told_in_a_line(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(arguments, {"fake-bench": bench_of(gives())}, {"one": peer_of("one", gives())})
    except SystemExit as ended:
        code = int(str(ended.code))
    assert code == 2
    captured = capsys.readouterr()
    assert told in captured.err
    assert captured.out == ""


def test_all_benches_run_beside_the_wanted_peers_that_take_part(capsys: pytest.CaptureFixture[str]) -> None:
    benches = {
        "fake-bench": bench_of(gives(5.0)),
        "other": replace(bench_of(gives(5.0)), name="other"),
    }
    peers = {"one": peer_of("one", gives(1.0)), "two": peer_of("two", gives(1.0))}
    assert main(["--json", "--only", "one", "--runs", "1"], benches, peers) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["bench"], each["peers"]) for each in printed] == [("fake-bench", {"one": 1.0}), ("other", {})]
    assert main(["--json", "--only", "celery"], benches, peers) == 2
    assert capsys.readouterr().err == "bench: no bench has a peer celery, only one, two\n"


def test_a_bench_that_fails_exits_1_with_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fake-bench", "--json"], {"fake-bench": bench_of(breaks(0, "no worker"))}, {}) == 1
    assert capsys.readouterr() == ("", "bench fake-bench: no worker\n")


def test_the_page_keeps_its_head_and_replaces_the_results(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text(f"# Head\n\n{MARKER}\n\nold results\n")
    found = Measured(7, 3, {"rate": 4500.0}, {"one": {"rate": 1500.0}}, {"two": "needs x|y"}, {"one": "one 1.0"})
    for _ in range(2):
        write_page([(bench_of(gives()), found)], page)
    text = page.read_text()
    assert text.startswith(f"# Head\n\n{MARKER}\n\n## Results\n")
    assert "old results" not in text
    assert text.count("| `fake-bench` | 4,500 jobs/s | one | 1,500 jobs/s | 3.00 | 3 |") == 1
    assert "| `fake-bench` | 4,500 jobs/s | two | not measured: needs x/y |  | 3 |" in text
    assert "- one: one 1.0" in text
