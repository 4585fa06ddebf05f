"""The names that the code counts under, the catalogue, the documentation, the dashboard and the alerts agree."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.observe.manual_clock import ManualClock
from workfleet.errors import UsageError
from workfleet.observe.metrics import catalogue
from workfleet.observe.metrics.catalogue import CATALOGUE, PREFIX
from workfleet.observe.metrics.memory import MemoryMetricStore
from workfleet.observe.metrics.registry import MetricsRegistry
from workfleet.observe.metrics.service import Metrics

ROOT = Path(__file__).parents[2]
NAME = re.compile(r"\bworkfleet_[a-z0-9_]+(?![a-z0-9_.])")
OF_HISTOGRAMS = ("_bucket", "_sum", "_count")
FAMILIES = "jobs?|job|schedule|queue|lock|locks|store|service|worker|workers|metrics|process|system|pool|health"


def literals(path: Path) -> Iterator[str]:
    """The texts of a file that look like a metric's name."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and re.fullmatch(rf"workfleet_({FAMILIES})[a-z_]*", text):
            yield text


def test_the_code_and_the_catalogue_have_the_same_names() -> None:
    own = Path(catalogue.__file__)
    found = {name for path in (ROOT / "src").rglob("*.py") if path != own for name in literals(path)}
    assert found == set(CATALOGUE)


def test_names_and_units_follow_the_conventions() -> None:
    for metric in CATALOGUE.values():
        assert (metric.kind == "counter") == metric.name.endswith("_total"), metric.name
        assert not re.search(r"_(ms|millis|milliseconds|minutes|kb|mb|percent)(_|$)", metric.name), metric.name
        if metric.kind == "histogram":
            assert metric.name.endswith(("_seconds", "_bytes"))
        assert metric.labels == tuple(sorted(metric.labels))
        assert metric.text.endswith(".")


async def test_our_names_are_not_the_application_s() -> None:
    metrics = Metrics(MetricsRegistry(), MemoryMetricStore(), ManualClock())
    for call in (
        lambda: metrics.counter("workfleet_jobs_total"),
        lambda: metrics.gauge("workfleet_mine", 1),
        lambda: metrics.histogram("workfleet_mine", 1),
        lambda: metrics.define("workfleet_mine", "gauge"),
    ):
        with pytest.raises(UsageError, match="names that begin with workfleet_ are workfleet's own"):
            call()
    assert metrics.snapshot() == []


def test_the_documentation_has_the_table() -> None:
    document = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    assert catalogue.renewed(document) == document, "python -m workfleet.observe.metrics.catalogue docs/metrics.md"
    assert document.count("\n| `workfleet_") == len(CATALOGUE)


# What is deployed


def known(name: str) -> str:
    """The metric that a name in a query is about."""
    base = next((name.removesuffix(end) for end in OF_HISTOGRAMS if name.endswith(end)), name)
    if base in CATALOGUE and CATALOGUE[base].kind == "histogram":
        return base
    assert name in CATALOGUE, f"{name} is not measured"
    assert CATALOGUE[name].kind != "histogram", f"{name} is a histogram: query its {OF_HISTOGRAMS}"
    return name


def check(expression: str) -> set[str]:
    """The metrics of an expression; they and the labels that it names are those of the catalogue."""
    names = {known(name) for name in NAME.findall(expression)}
    assert names, expression
    labels = {"le", "instance"}.union(*(CATALOGUE[name].labels for name in names))
    for matcher in re.findall(r"\{([^}]*)\}", expression):
        used = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matcher)
        assert set(used) <= labels, expression
    for grouping in re.findall(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)", expression):
        assert set(re.findall(r"\w+", grouping)) <= labels, expression
    assert expression.count("(") == expression.count(")")
    # A counter says nothing by itself, only by how it grows.
    for name in NAME.findall(expression):
        if name.endswith(("_total", "_bucket")):
            assert re.search(rf"(rate|increase)\({name}", expression), expression
    return names


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "deploy" / "grafana-dashboard.json").read_text("utf-8"))
    return found


def test_the_dashboard_asks_for_what_is_measured() -> None:
    panels = [panel for panel in dashboard()["panels"] if panel["type"] != "row"]
    seen: set[str] = set()
    for panel in panels:
        assert panel["title"]
        assert panel["description"]
        for target in panel["targets"]:
            metrics = check(target["expr"])
            seen |= metrics
            labels = {label for name in metrics for label in CATALOGUE[name].labels}
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels, target
    only_in_queries = {
        "workfleet_schedule_last_fire_timestamp_seconds",
        "workfleet_schedule_next_slot_timestamp_seconds",
    }
    assert set(CATALOGUE) - seen == only_in_queries, "everything that is measured is shown"
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["definition"]).groups()  # type: ignore[union-attr]
            assert label in CATALOGUE[metric].labels


def test_the_dashboard_is_one_that_grafana_loads() -> None:
    """After Grafana's JSON model: what an import needs, and what refers to something refers to what is there."""
    whole = dashboard()
    assert isinstance(whole["schemaVersion"], int)
    assert re.fullmatch(r"[\w-]{1,40}", whole["uid"])
    assert {"title", "time", "templating", "annotations", "panels"} <= set(whole)
    variables = {variable["name"]: variable for variable in whole["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    source = {"type": "prometheus", "uid": "${datasource}"}
    assert all(variable["datasource"] == source for name, variable in variables.items() if name != "datasource")
    for panel in whole["panels"]:
        assert {"id", "type", "title", "gridPos"} <= set(panel)
        assert set(panel["gridPos"]) == {"h", "w", "x", "y"}
        if panel["type"] == "row":
            continue
        assert panel["type"] in ("timeseries", "stat", "table")
        assert panel["datasource"] == source
        assert panel["fieldConfig"]["defaults"]["unit"] in ("short", "s", "ops", "bytes", "percentunit")
        refs = [target["refId"] for target in panel["targets"]]
        assert refs == [chr(65 + number) for number in range(len(refs))], panel["title"]
        for target in panel["targets"]:
            assert target["datasource"] == source
            used = set(re.findall(r"\$\{?(\w+)", target["expr"])) - {"__rate_interval"}
            assert used <= set(variables), target["expr"]


def test_the_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    ids = [panel["id"] for panel in dashboard()["panels"]]
    assert len(set(ids)) == len(ids)


def test_the_alerts_watch_what_is_measured() -> None:
    document = yaml.safe_load((ROOT / "deploy" / "alerts.yaml").read_text("utf-8"))
    rules = [rule for group in document["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) > 10
    for rule in rules:
        metrics = check(rule["expr"])
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"\d+[smhd]", rule.get("for", "1m"))
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        labels = {label for name in metrics for label in CATALOGUE[name].labels}
        text = rule["annotations"]["summary"] + rule["annotations"]["description"]
        assert set(re.findall(r"\$labels\.(\w+)", text)) <= labels, rule["alert"]
    assert all(PREFIX in rule["expr"] for rule in rules)
