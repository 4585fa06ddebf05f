"""docs/schedules.md is true: its modules and commands work, its table names every option, and each has its test."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.cli.conftest import Project
from workfleet.model.options import ScheduleOptions
from workfleet.settings.core import JobOverride
from workfleet.testing import Fleet

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "schedules.md").read_text("utf-8")
MODULES = dict(re.findall(r"^```python\n# (\w+)\.py\n(.*?)^```$", DOCUMENT, flags=re.DOTALL | re.MULTILINE))
OPTIONS = [line.strip("|").split(" | ") for line in DOCUMENT.splitlines() if line.startswith("|") and "::test_" in line]


def project_in(folder: Path) -> Project:
    project = Project(folder)
    project.write("workfleet.yaml", "app: clinic.py\n")
    for name, text in MODULES.items():
        project.write(f"{name}.py", text)
    return project


def test_every_command_works_as_shown(tmp_path: Path) -> None:
    project = project_in(tmp_path)
    assert project("run", "--until-idle", WORKER_RELEASE="1").code == 0
    (block,) = re.findall(r"^```sh\n(.*?)^```$", DOCUMENT, flags=re.DOTALL | re.MULTILINE)
    shown = block.splitlines()
    assert len(shown) == 11
    for line in shown:
        name, *arguments = shlex.split(line, comments=True)
        assert name == "workfleet"
        ran = project(*arguments)
        assert ran.code == 0, (line, ran)
        assert "clean" in line or ran.err == "", (line, ran)
    left = {each["name"]: each for each in project("schedules", "ls", "--json").documents}
    assert set(left) == {"hourly", "letter:9", "migrate", "nightly", "purge", "reminders"}
    assert (left["letter:9"]["interval"], left["purge"]["expires"], left["nightly"]["from_code"]) == ("14d", "1h", True)


def test_schedules_are_steered_from_python_as_shown(tmp_path: Path) -> None:
    project = project_in(tmp_path)
    assert project("run", "--until-idle", WORKER_RELEASE="1").code == 0
    environ = {name: value for name, value in os.environ.items() if not name.startswith("WORKER_")}
    done = subprocess.run(
        [sys.executable, "plans.py"], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    due, overdue, triggered = done.stdout.splitlines()
    assert due.endswith("00+00:00 False")
    assert (overdue, triggered) == ("[]", "True None")


def test_an_operator_changes_schedules_as_shown(tmp_path: Path) -> None:
    project = project_in(tmp_path)
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", DOCUMENT, flags=re.DOTALL | re.MULTILINE)
    project.write("workfleet.yaml", f"app: clinic.py\n{block}")
    said = {"WORKER_RELEASE": "1", "WORKER_JOBS__HOURLY__MISSED": "catch_up(3)"}
    assert project("run", "--until-idle", **said).code == 0
    found = {each["name"]: each for each in project("schedules", "ls", "--json").documents}
    assert (found["nightly"]["cron"], found["nightly"]["overlap"]) == ("0 4 * * *", "queue_one")
    reminders = found["reminders"]
    assert (reminders["interval"], reminders["expires"]) == ("30m", None)
    assert reminders["skip_on"] == ["2027-12-24", "2027-12-31"]
    assert found["hourly"]["missed_policy"] == "catch_up(3)"


def test_what_cannot_be_said_by_name_is_what_the_page_says() -> None:
    sentence = DOCUMENT.split("```yaml")[1].split("All but ")[1].split(" can be said so")[0]
    assert set(re.findall(r"`(\w+)`", sentence)) == ScheduleOptions.__optional_keys__ - JobOverride.model_fields.keys()


async def test_the_application_does_what_it_says() -> None:
    names: dict[str, object] = {"__name__": "clinic"}
    exec(compile(MODULES["clinic"], "clinic.py", "exec", dont_inherit=True), names)
    app = names["app"]
    async with Fleet(app, now="2027-12-24T21:00Z", settings={"release": "1"}) as fleet:  # type: ignore[arg-type]
        await fleet.travel("6h")
        assert [run.outcome for run in await fleet.runs("migrate")] == ["completed"]
        assert [run.outcome for run in await fleet.runs("nightly")] == ["completed"]
        assert len(await fleet.runs("hourly")) == 6
        # Its dates are local where the application is, in UTC: from midnight on.
        assert len(await fleet.runs("reminders")) == 13
        assert len(await fleet.jobs.list(queue="letters")) == 26
        assert fleet.failed == []


def test_the_table_names_every_option_and_a_test_of_it() -> None:
    named = {name for cells in OPTIONS for name in re.findall(r"`(\w+)`", cells[0])}
    assert named == {"cron", "every", "at"} | ScheduleOptions.__optional_keys__
    for cells in OPTIONS:
        for file, test in re.findall(r"`([\w/.]+)::(\w+)`", cells[-1]):
            tree = ast.parse((ROOT / "tests" / file).read_text("utf-8"))
            functions = [
                node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            ]
            assert test in functions, (cells[0], file, test)


def test_the_statuses_are_named() -> None:
    table = DOCUMENT.split("## What became of slots")[1]
    assert set(re.findall(r"^\| (\w+) \| \w", table, flags=re.MULTILINE)) == {
        *("fired", "late", "skipped", "coalesced", "missed")
    }


def test_every_link_leads_somewhere() -> None:
    for page, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", DOCUMENT):
        text = (ROOT / "docs" / page).read_text("utf-8") if page else DOCUMENT
        anchors = [
            re.sub(r"[^\w-]", "", title.lower().replace(" ", "-"))
            for title in re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
        ]
        assert not anchor or anchor in anchors, (page, anchor)
    assert "/home/" not in DOCUMENT
