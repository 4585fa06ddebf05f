"""docs/health.md: its program runs, its settings are valid, and its tables are what the code says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from tests.cli.conftest import Project
from workfleet.app.judging import LATE_BEAT_MS, MAX_AGE_MS, MAX_BEAT_AGE_MS, MAX_STORE_AGE_MS
from workfleet.modules.builtin import HealthOptions
from workfleet.settings.health import HealthSettings, HealthThresholds

DOCUMENT = (Path(__file__).parents[2] / "docs" / "health.md").read_text("utf-8")
SETTINGS = HealthSettings()


def table(first: str) -> list[list[str]]:
    """The rows of a table by how its head begins."""
    lines = DOCUMENT.split(f"| {first} |")[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def shown(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(value)
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return str(value)


def test_every_option_is_in_the_table_with_its_default() -> None:
    said = {name.strip("`"): default for name, default, _ in table("option of `HealthModule`")}
    apart = {"thresholds", "queue_ages"}
    assert said == {name: shown(getattr(SETTINGS, name)) for name in HealthSettings.model_fields if name not in apart}
    assert set(HealthOptions.__optional_keys__) == set(HealthSettings.model_fields)
    for name in apart:
        assert f"`{name}`" in DOCUMENT


def test_every_indicator_is_in_the_table_with_its_thresholds() -> None:
    rows = table("indicator")
    switches = [row[1].strip("`") for row in rows]
    assert set(switches) == {name for name, field in HealthSettings.model_fields.items() if field.annotation is bool}
    for switch, (name, _, critical, degraded, unhealthy, what) in zip(switches, rows, strict=True):
        assert name.strip("`").replace("-", "_") == switch
        assert critical == ("always" if switch == "store" else "yes" if switch in SETTINGS.critical else "no")
        if switch != "pools":
            thresholds = SETTINGS.thresholds
            assert degraded == str(getattr(thresholds, f"{switch}_degraded"))
            assert unhealthy == str(getattr(thresholds, f"{switch}_unhealthy"))
        if switch == "disk":
            assert str(SETTINGS.thresholds.disk_enough) in what
    pairs = {f"{switch}_{how}" for switch in switches for how in ("degraded", "unhealthy")} | {"disk_enough"}
    assert set(HealthThresholds.model_fields) == pairs - {"pools_degraded", "pools_unhealthy"}


def test_the_probes_are_judged_by_these_times() -> None:
    rules = {name.strip("`"): text for name, text in table("probe")}
    assert (MAX_AGE_MS, MAX_STORE_AGE_MS, MAX_BEAT_AGE_MS, LATE_BEAT_MS) == (15_000, 30_000, 30_000, 5_000)
    assert "15 s" in rules["live"]
    assert rules["ready"].count("30 s") == 2


def test_the_program_runs_with_these_settings(tmp_path: Path) -> None:
    project = Project(tmp_path)
    (program,) = re.findall(r"^```python\n(.*?)^```$", DOCUMENT, flags=re.DOTALL | re.MULTILINE)
    blocks = re.findall(r"^```yaml\n(.*?)^```$", DOCUMENT, flags=re.DOTALL | re.MULTILINE)
    (settings,) = [block for block in blocks if block.startswith("health:")]
    program = program.replace("Indication, Job\n", "Indication, Job, Queue\n")
    project.write("app.py", program.replace('App("shop")', 'App("shop", queues=[Queue("emails")])'))
    project.write("workfleet.yaml", f"app: app.py\nrelease: '1.2'\n{settings}")
    project.make_store("shop")
    assert project("enqueue", "reports", "report").code == 0
    ran = project("run", "--until-idle")
    assert ran.code == 0, ran.err
    (job,) = [each for each in project("jobs", "ls", "--json").documents if each["name"] == "report"]
    (shown,) = project("jobs", "show", job["id"], "--json").documents
    assert re.fullmatch(r"(healthy|degraded) 1\.2 .*", shown["result"])
    for block in blocks:
        assert yaml.safe_load(block)
