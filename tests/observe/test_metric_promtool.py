"""What is told and deployed, as Prometheus' own tool sees it. Where it is not there, the parser's round trip of
`test_metric_exposition.py` still is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.observe.test_metric_exposition import ODD
from workfleet.observe.metrics.catalogue import CATALOGUE
from workfleet.observe.metrics.exposition import exposition
from workfleet.observe.metrics.registry import MetricsRegistry

DEPLOYED = Path(__file__).parents[2] / "deploy"
TESTS = Path(__file__).with_name("alerts.test.yaml")
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool (of the package prometheus) is not on PATH")


def promtool(*arguments: str, stdin: str = "") -> tuple[int, str]:
    """Its exit code, and what it said."""
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *arguments], input=stdin, check=False, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


@needs_promtool
def test_everything_that_can_be_measured_is_clean() -> None:
    registry = MetricsRegistry()
    for number, value in enumerate(ODD):
        for metric in CATALOGUE.values():
            labels = tuple((label, value) for label in metric.labels)
            if metric.kind == "histogram":
                registry.observe(metric.name, labels, number)
            elif metric.kind == "counter":
                registry.add(metric.name, labels, number)
            else:
                registry.put(metric.name, labels, number)
        registry.counter("photos_total", number, labels={"of": value})
        registry.histogram("photo_bytes", number, labels={"of": value})
    assert promtool("check", "metrics", stdin=exposition(registry.snapshot())) == (0, "")


@needs_promtool
def test_the_alert_rules_are_valid_and_fire_and_stay_silent_as_they_should() -> None:
    code, said = promtool("check", "rules", str(DEPLOYED / "alerts.yaml"))
    assert code == 0, said
    code, said = promtool("test", "rules", str(TESTS))
    assert code == 0, said


def test_each_alert_is_tested_firing_and_silent() -> None:
    rules = yaml.safe_load((DEPLOYED / "alerts.yaml").read_text("utf-8"))
    alerts = {rule["alert"].removeprefix("Workfleet") for group in rules["groups"] for rule in group["rules"]}
    names = [each["name"] for each in yaml.safe_load(TESTS.read_text("utf-8"))["tests"]]
    for how in ("fires", "is silent"):
        assert {name.removesuffix(f" {how}") for name in names if name.endswith(f" {how}")} == alerts


def queries() -> list[tuple[str, str]]:
    """Those of the dashboard as Grafana fills them in, with the titles of their panels."""
    panels = json.loads((DEPLOYED / "grafana-dashboard.json").read_text("utf-8"))["panels"]
    asked = [(panel["title"], target["expr"]) for panel in panels for target in panel.get("targets", ())]
    return [(title, re.sub(r"\$\{?\w+\}?", ".*", query.replace("$__rate_interval", "5m"))) for title, query in asked]


@needs_promtool
def test_the_queries_of_the_dashboard_are_valid(tmp_path: Path) -> None:
    rules = [{"record": f"query:{number}", "expr": query} for number, (_, query) in enumerate(queries())]
    path = tmp_path / "queries.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    code, said = promtool("check", "rules", str(path))
    assert code == 0, said
    assert f"{len(rules)} rules found" in said


ENDED = ("completed", "skipped", "cancelled", "failed", "unknown_job", "crashed")
PUT_OFF = ("retried", "given_back", "snoozed", "deferred")
A_SECOND = "0+60x150"
SHOWN = {
    "Failed for good, last hour": {"{}": 3 * 3600},
    "Enqueued and ended": {"{}": len(ENDED)},
    "Failures and retries by job": {'{job="j"}': 3},
    "Jobs that wait": {'{queue="q"}': 13},
    "Runs of schedules by outcome": {'{outcome="failed"}': 2} | {f'{{outcome="{each}"}}': 1 for each in PUT_OFF},
    "Failed runs by schedule, last hour": {'{schedule="acme"}': 3600, '{schedule="bolt"}': 3600},
}
"""What panels show of one run a second of each outcome, and of waiting jobs of which two machines tell."""


@needs_promtool
@pytest.mark.parametrize("title", SHOWN)
def test_a_panel_shows_what_its_title_says(title: str, tmp_path: Path) -> None:
    series = {
        **{f'workfleet_jobs_total{{job="j",outcome="{each}",queue="q"}}': A_SECOND for each in (*ENDED, *PUT_OFF)},
        **{
            f'workfleet_schedule_runs_total{{outcome="failed",schedule="{each}"}}': A_SECOND
            for each in ("acme", "bolt")
        },
        **{f'workfleet_schedule_runs_total{{outcome="{each}",schedule="bolt"}}': A_SECOND for each in PUT_OFF},
        'workfleet_queue_jobs{instance="a",queue="q",state="waiting"}': "5x150",
        'workfleet_queue_jobs{instance="b",queue="q",state="waiting"}': "6x150",
        'workfleet_queue_jobs{instance="a",queue="q",state="prioritized"}': "7x150",
        'workfleet_queue_jobs{instance="a",queue="q",state="delayed"}': "99x150",
    }
    asked = [query for shown, query in queries() if shown == title]
    samples = [{"labels": labels, "value": value} for labels, value in SHOWN[title].items()]
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": " or ".join(asked), "eval_time": "150m", "exp_samples": samples}],
    }
    path = tmp_path / "panel.yaml"
    path.write_text(yaml.safe_dump({"evaluation_interval": "1m", "tests": [test]}))
    code, said = promtool("test", "rules", str(path))
    assert code == 0, said
