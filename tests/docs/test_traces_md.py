"""docs/traces.md: its table is that of the names in the code, its program runs, its settings have these defaults."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.cli.conftest import Project
from workfleet.events import SubscriberFailed
from workfleet.observe.trace_names import SPANS
from workfleet.settings.pools import PoolsSettings
from workfleet.settings.sections import TracingSettings

DOCUMENT = (Path(__file__).parents[2] / "docs" / "traces.md").read_text("utf-8")


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.strip().splitlines()[2:]]


def test_the_table_of_spans_is_that_of_the_code() -> None:
    table = DOCUMENT.split("<!-- spans: begin -->\n")[1].split("<!-- spans: end -->")[0]
    assert rows(table) == [
        [f"`{span.name}`", span.kind, ", ".join(f"`{name}`" for name in span.attributes)] for span in SPANS
    ]


def test_other_names_in_the_text_exist() -> None:
    known = {name for span in SPANS for name in span.attributes}
    assert set(re.findall(r"`((?:messaging|workfleet|error)\.[\w.]+)`", DOCUMENT)) <= known
    assert f"`{SubscriberFailed.wire_name}`" in DOCUMENT


def test_the_settings_and_their_defaults() -> None:
    table = rows("head\n" + DOCUMENT.split("| setting | default | |\n")[1].split("\n\n")[0])
    said = {re.findall(r"`([\w.]+)`", row[0])[0]: row[1] for row in table}
    own = {f"tracing.{name}": str(field.default).lower() for name, field in TracingSettings.model_fields.items()}
    assert said == {**own, "pools.monitoring.tracing": str(PoolsSettings().monitoring.tracing).lower()}


def test_the_program_shows_spans(tmp_path: Path) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```$", DOCUMENT, flags=re.DOTALL | re.MULTILINE)
    assert len([line for line in program.splitlines() if line]) == 5
    project = Project(tmp_path)
    project.write("app.py", f"{program}\n{APP}")
    project.write("workfleet.yaml", "app: app.py\n")
    project.make_store("shop")
    assert project("enqueue", "mails", "send", '"a"').code == 0
    ran = project("run", "--until-idle")
    assert ran.code == 0, ran.err
    assert '"name": "run mails"' in ran.out + ran.err, sys.version


APP = """
from workfleet import App, Job

app = App("shop")


@app.handler("send", queue="mails")
async def send(job: Job[str]) -> None: ...
"""
