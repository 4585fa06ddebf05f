"""What docs/history.md shows works: its two applications, its commands, and every field and kind is named."""

from __future__ import annotations

import dataclasses
import importlib
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import make_project
from workfleet import PastRun
from workfleet.model.runs import RUN_KINDS
from workfleet.testing import Fleet

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "history.md").read_text("utf-8")
BLOCKS = dict(re.findall(r"^```python\n# (\w+)\.py\n(.*?)^```$", DOCUMENT, flags=re.DOTALL | re.MULTILINE))


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, text in BLOCKS.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module
    for name in BLOCKS:
        sys.modules.pop(name, None)


async def test_the_ledger_says_what_became_of_runs(modules: Any) -> None:
    app = modules("watching").app
    async with Fleet(app, now="2027-03-22T00:00Z") as fleet:  # a Monday
        await fleet.travel("7d6h")
        runs = await fleet.schedules.history("nightly")
        (last, _) = await fleet.schedules.history("weekly")
        assert last.job_id is not None
        (job,) = await (await fleet.session.store()).jobs.get([last.job_id])
    assert [run.outcome for run in runs] == ["completed", "failed"] * 8
    assert job is not None
    assert json.loads(job.result or b"") == ["failed after 0 s: ConnectionError: the bank does not answer"] * 8


async def test_listeners_are_told(modules: Any) -> None:
    alerting = modules("alerting")
    async with Fleet(alerting.app, now="2027-03-22T00:00Z") as fleet:
        await fleet.travel("1d")
        await fleet.enqueue(alerting.send.job("hello"))
        await fleet.run_until_idle()
    assert sorted(alerting.told) == ["failure of nightly: the disk is full", "nightly begins", "send begins"]


def test_the_commands_work(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    assert project("run", "--until-idle", WORKER_HEARTBEAT_ENABLED="false").code == 0
    (block,) = re.findall(r"```sh\n(.*?)```", DOCUMENT, re.DOTALL)
    for line in block.splitlines():
        name, *arguments = shlex.split(line, comments=True)
        assert name == "workfleet"
        ran = project(*arguments)
        assert (ran.code, ran.err) == (0, "")


def test_the_tables_name_every_field_and_kind() -> None:
    cells = re.findall(r"^\| ([^|]*) \|", DOCUMENT, flags=re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert {field.name for field in dataclasses.fields(PastRun)} | set(RUN_KINDS) <= named


def test_every_link_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", DOCUMENT)
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []
