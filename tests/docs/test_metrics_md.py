"""docs/metrics.md: its program runs, its commands exist, and its settings have the defaults that it says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tests.cli.conftest import Project
from workfleet.settings.sections import MetricsCollection

DOCUMENT = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text("utf-8")


def commands() -> list[list[str]]:
    found = re.findall(r"^\$ workfleet (.*)$", DOCUMENT, flags=re.MULTILINE)
    return [shlex.split(line.split(" > ")[0]) for line in found]


def test_the_program_runs_and_the_commands_show_it(tmp_path: Path) -> None:
    project = Project(tmp_path)
    (program,) = re.findall(r"^```python\n(.*?)^```$", DOCUMENT, flags=re.DOTALL | re.MULTILINE)
    project.write("app.py", program.replace('every="1h"', 'every="1h", run_on_start=True'))
    project.write("workfleet.yaml", "app: app.py\n")
    project.make_store("shop")
    assert project("enqueue", "images", "resize", '"a.png"').code == 0
    ran = project("run", "--until-idle")
    assert ran.code == 0, ran.err
    for name in ("images_resize_calls_total", "images_bytes_total", "images_cached", "image_pixels"):
        assert len(project("metrics", "query", name, "--step", "1d", "--json").documents) == 1
    assert [command[1] for command in commands()] == ["ls", "query", "query", "query", "export"]
    for command in commands():
        done = project(*command)
        assert done.code == 0, done.err
        assert done.out or "waiting" in str(command)


def test_the_switches_and_their_defaults() -> None:
    table = DOCUMENT.split("| setting `metrics.collection.…`")[1].split("\n\n")[0]
    rows = [row.split("|")[1:3] for row in table.splitlines()[2:]]
    said = {
        name: default
        for names, defaults in rows
        for name, default in zip(
            re.findall(r"`(\w+)`", names), _as_many(defaults.strip().split(", "), names.count("`") // 2), strict=True
        )
    }
    assert said == {
        name: str(field.default).lower().replace("1m", "1 min").replace("10s", "10 s")
        for name, field in MetricsCollection.model_fields.items()
    }


def _as_many(defaults: list[str], count: int) -> list[str]:
    """Switches that stand together have one default, and the interval after them its own."""
    return defaults[:1] * (count - len(defaults) + 1) + defaults[1:]
