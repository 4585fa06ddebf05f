"""docs/logs.md: its program runs and says what is shown, and its table is that of the settings."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import workfleet.events as catalogue
from tests.cli.conftest import Project
from workfleet.modules.builtin import LoggerOptions
from workfleet.observe.logs.own import MOST_WAITING
from workfleet.observe.logs.rendering import LogLine
from workfleet.observe.logs.setup import FLUSH_S
from workfleet.pools.output import LINES_A_SECOND
from workfleet.settings.sections import JobLogs, LogSettings

DOCUMENT = (Path(__file__).parents[2] / "docs" / "logs.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT, flags=re.DOTALL | re.MULTILINE)


def shown(value: Any) -> str:
    if isinstance(value, JobLogs):
        return f"{value.level}, {value.lines}, {value.size}"
    return "none" if value in ({}, []) else str(value).lower()


def test_every_option_is_in_the_table_with_its_default() -> None:
    lines = DOCUMENT.split("| option of `LoggerModule` |")[1].split("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    settings = LogSettings()
    assert {name.strip("`"): default for name, default, _ in rows} == {
        name: shown(getattr(settings, name)) for name in LogSettings.model_fields
    }
    assert set(LoggerOptions.__optional_keys__) == set(LogSettings.model_fields)


def test_names_and_numbers_are_those_of_the_code() -> None:
    wire_names = {getattr(catalogue, name).wire_name for name in catalogue.__all__ if name not in ("Event", "Level")}
    assert set(re.findall(r"`((?:log|child)\.(?:failed|dropped|recovered|printed))`", DOCUMENT)) <= wire_names
    assert f"with {MOST_WAITING:,} lines waiting" in DOCUMENT
    assert (FLUSH_S, LINES_A_SECOND) == (2.0, 1_000)
    words = re.findall(r"one `LogLine`: (.*?)\. Or", DOCUMENT, flags=re.DOTALL)[0]
    parts = set(re.findall(r"`(\w+)(?:\(\))?`", words))
    assert parts == ({*LogLine.__struct_fields__, "time", "json"} - {"at_s", "said"})


def test_the_settings_file_is_right() -> None:
    (text,) = blocks("yaml")
    settings = LogSettings.model_validate(yaml.safe_load(text)["log"])
    assert (settings.levels, settings.destinations["audit"].level) == ({"workfleet.job": "warning"}, "debug")


@pytest.mark.full
def test_the_program_says_what_is_shown(tmp_path: Path) -> None:
    program, handler = blocks("python")
    project = Project(tmp_path)
    project.write(
        "app.py", f"{program}\n{handler.replace('SysLogHandler()', 'SysLogHandler((' + repr('127.0.0.1') + ', 9))')}"
    )
    project.write("workfleet.yaml", "app: app.py\n")
    project.make_store("shop")
    # Each in a process of its own: the program opens a socket where it is imported.
    assert project.process("enqueue", "media", "thumbnail", "4000", "--id", "t-1").code == 0
    ran = project("run", "--until-idle")
    assert ran.code == 0, ran.err
    (line,) = [line for line in map(json.loads, ran.err.splitlines()) if line["message"] == "it is large"]
    (example,) = blocks("json")
    assert {**line, "time": ""} == {**json.loads(example), "time": ""}
    assert list(line) == list(json.loads(example))
    assert json.loads((tmp_path / "audit.jsonl").read_text()) == line
    kept = project.process("jobs", "logs", "t-1").out
    assert [text[25:] for text in kept.splitlines()] == [
        "info     shop: reading image 4000",
        "warning  shop: it is large width=4000 password=***",
    ]
