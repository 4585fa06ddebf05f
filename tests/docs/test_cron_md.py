"""docs/cron.md is true: its table is what the slow answers say, the engine says the same, its examples are real."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.schedules.hard_zones import PAGE, page, rows
from workfleet.cli.main import main
from workfleet.model.cron import Cron

TEXT = PAGE.read_text("utf-8")


def test_the_table_of_hard_zones_is_fresh() -> None:
    assert page(TEXT) == TEXT, "stale: write it anew with `python -m tests.schedules.hard_zones`"


def test_the_engine_does_what_the_table_says() -> None:
    compared = 0
    for row in rows():
        for (gap, overlap), expected in row.runs.items():
            cron = Cron.parse(row.expression, timezone=row.change.zone, dst_gap=gap, dst_overlap=overlap)  # type: ignore[arg-type]
            found = [at // 1000 for at in cron.between(row.start * 1000, row.end * 1000)]
            assert found == expected, (row.change.zone, row.expression, gap, overlap)
            compared += 1
    assert compared == 27 * 6


@pytest.mark.parametrize("example", re.findall(r"^```console\n(.*?)^```$", TEXT, flags=re.DOTALL | re.MULTILINE))
def test_a_command_prints_what_the_page_shows(example: str, capsys: pytest.CaptureFixture[str]) -> None:
    typed, _, shown = example.partition("\n")
    assert main(shlex.split(typed.removeprefix("$ workfleet "))) in (0, 2)
    out, err = capsys.readouterr()
    assert out + err == shown


def test_the_example_in_python_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```$", TEXT, flags=re.DOTALL | re.MULTILINE)
    exec(block, {})
    words, instants = capsys.readouterr().out.splitlines()
    assert words == "at 02:30 on Monday to Friday, Europe/Berlin"
    # Friday noon: the next is on Monday, in summer time.
    assert instants.startswith("1774830600000 1774575000000 [1774830600000, 1774917000000,")
