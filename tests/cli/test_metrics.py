"""`metrics ls|query|export`, and what a run has measured by then."""

from __future__ import annotations

import io
import math
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as parsed

from tests.outbox.postgres_server import PostgresServer, a_server
from workfleet.cli.chart import chart, short
from workfleet.cli.metrics import nice_step
from workfleet.cli.metrics_shown import Shown, write_charts, write_points
from workfleet.observe.metrics.model import CounterPoint, GaugePoint, HistogramPoint, MetricSeries

from .conftest import Project, Terminal, make_project

TEXTFILE = "metrics/shop.prom"
DONE = "workfleet_jobs_total"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project of which two workers have done three jobs, and failed at one. Tests only read it."""
    project = make_project(tmp_path_factory.mktemp("measured"))
    work(project, "--processes", "2", WORKER_METRICS__TEXTFILE=TEXTFILE)
    return project


def work(project: Project, *arguments: str, **environ: str) -> None:
    project.make_store("shop")
    for name in ("Ada", "Grace", "Edith", "nobody"):
        assert project("enqueue", "greetings", "greet", f'{{"name": "{name}"}}').code == 0
    ran = project("run", "--until-idle", *arguments, **environ)
    assert ran.code == 0, ran.err


def samples(text: str) -> dict[tuple[str, str], float]:
    """Samples of an exposition by name and outcome."""
    return {
        (sample.name, sample.labels.get("outcome", "")): sample.value
        for family in parsed(text)
        for sample in family.samples
        if "bucket" not in sample.name
    }


def test_names_with_their_types(measured: Project) -> None:
    out = measured("metrics", "ls").out.splitlines()
    assert out[0].split() == ["NAME", "TYPE", "SERIES", "LAST"]
    rows = {line.split()[0]: line.split()[1:3] for line in out[1:]}
    assert rows[DONE] == ["counter", "2"]
    assert rows["workfleet_job_wait_seconds"] == ["histogram", "1"]
    assert rows["workfleet_process_threads"] == ["gauge", "2"], "of two workers"
    assert rows["workfleet_queue_jobs"][0] == rows["workfleet_schedule_overdue_seconds"][0] == "gauge"
    documents = {each["name"]: each for each in measured("metrics", "ls", "--json").documents}
    assert set(documents) == set(rows)
    last = documents[DONE].pop("last")
    assert documents[DONE] == {"name": DONE, "kind": "counter", "series": 2}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.?\d*Z", last)


def test_all_that_the_workers_counted_is_there_once_they_have_stopped(measured: Project) -> None:
    found = measured("metrics", "query", DONE, "--step", "1d", "--since", "1d", "--json").documents
    counts: dict[str, float] = {}
    for each in found:
        counts[each["labels"]["outcome"]] = counts.get(each["labels"]["outcome"], 0) + each["increase"]
    assert counts == {"completed": 3, "failed": 1}
    assert {(each["name"], each["kind"], each["host"]) for each in found} == {(DONE, "counter", None)}


def test_series_are_chosen_and_merged_by_label(measured: Project) -> None:
    def increases(*arguments: str) -> dict[str, float]:
        ran = measured("metrics", "query", DONE, "--since", "1d", "--step", "7d", "--json", *arguments)
        return {str(sorted(each["labels"])): each["increase"] for each in ran.documents}

    assert increases("--label", "outcome=failed") == {"['job', 'outcome', 'queue']": 1}
    assert increases("-l", "outcome=failed", "-l", "queue=else") == {}
    assert increases("--by", "queue") == {"['queue']": 4}
    assert increases("--total") == {"[]": 4}


def test_gauges_are_summed_or_merged_as_asked(measured: Project) -> None:
    def last(*arguments: str) -> list[float]:
        ran = measured("metrics", "query", "workfleet_process_threads", "--step", "7d", "--json", *arguments)
        return [each["last"] for each in ran.documents]

    workers = last()
    assert len(workers) == 2, "of two workers"
    assert last("--total") == last("--by", "host") == [sum(workers)]
    assert last("--total", "--merge", "max") == [max(workers)]
    assert last("--total", "--merge", "mean") == [sum(workers) / 2]


def test_a_table_where_nobody_looks(measured: Project) -> None:
    lines = measured("metrics", "query", "workfleet_job_duration_seconds", "--step", "7d", "--quantile", "0.9").out
    head, row = lines.splitlines()
    assert head.split() == ["TIME", "COUNT", "MEAN", "P50", "P90", "LABELS"]
    assert row.split()[1] == "4"
    assert row.endswith("job=greet queue=greetings")
    nothing = measured("metrics", "query", DONE, "--until", "2020-01-01T00:00Z")
    assert nothing.out == f"nothing of {DONE} was measured in that time, or no series has these labels\n"
    assert nothing.code == 0


def test_what_was_measured_is_exported(measured: Project) -> None:
    ran = measured("metrics", "export")
    found = samples(ran.out)
    assert (found[DONE, "completed"], found[DONE, "failed"]) == (3, 1)
    assert found["workfleet_job_duration_seconds_count", ""] == 4
    documents = measured("metrics", "export", "--format", "json").documents
    (done,) = [each for each in documents if each["name"] == DONE and each["labels"]["outcome"] == "completed"]
    assert (done["kind"], done["value"], done["host"]) == ("counter", 3, None)
    (waits,) = [each for each in documents if each["name"] == "workfleet_job_wait_seconds"]
    assert waits["count"] == sum(waits["buckets"].values()) == 4
    assert list(waits["buckets"])[-1] == "+Inf"
    old = samples(measured("metrics", "export", "--since", "1ms").out)
    assert not any("process_threads" in name for name, _ in old), "gauges that nobody has set for so long"
    assert old[DONE, "completed"] == 3


def test_the_text_file_adds_up_the_workers(measured: Project) -> None:
    found = samples((measured.folder / TEXTFILE).read_text())
    assert (found[DONE, "completed"], found[DONE, "failed"]) == (3, 1)
    assert found["workfleet_job_wait_seconds_count", ""] == 4


def test_what_cannot_be_answered(measured: Project, project: Project) -> None:
    unknown = measured("metrics", "query", "workfleet_job_total")
    assert unknown[::2] == (
        4, "Error: nothing was measured under the name 'workfleet_job_total'; did you mean workfleet_jobs_total?\n"
    )  # fmt: skip
    assert "metrics ls` lists" in measured("metrics", "query", "zzz").err
    for option in ("--by", "--label"):
        no_such = measured("metrics", "query", DONE, option, "host=a" if option == "--label" else "host")
        assert no_such[::2] == (
            4, "Error: no series of workfleet_jobs_total has a label 'host'; there are job, outcome, queue\n"
        )  # fmt: skip
    refused = measured("metrics", "query", DONE, "--total", "--merge", "max")
    told = "--merge is about gauges, and workfleet_jobs_total is a counter: leave it out"
    assert refused[::2] == (2, f"Error: {told}\n")
    alone = measured("metrics", "query", "workfleet_process_threads", "--merge", "max")
    told = "--merge is about what --by or --total merges: give one of them, too"
    assert alone[::2] == (2, f"Error: {told}\n")
    assert "it has no labels" in measured("metrics", "query", "workfleet_workers", "--by", "queue").err
    ahead = measured("metrics", "query", DONE, "--since", "2999-01-01T00:00Z")
    assert ahead[::2] == (2, "Error: the time range is empty: its end must be after its start\n")
    for words in ("--label queue", "--since soon", "--step 0s", "--step 1ms", "--step x", "--quantile 2"):
        arguments = words.split()
        assert measured("metrics", "query", DONE, *arguments).code == 2, arguments
    share = measured("metrics", "query", DONE, "--quantile", "0.5")
    told = "--quantile is about histograms, and workfleet_jobs_total is a counter: leave it out"
    assert share[::2] == (2, f"Error: {told}\n")
    assert measured("metrics", "export", "--since", "soon").code == 2
    missing = project("metrics", "ls")
    assert missing.code == 3
    assert "shop.db.metrics.db: it does not exist yet. Run the application first" in missing.err
    in_memory = project("metrics", "ls", WORKER_METRICS__STORAGE="memory")
    assert in_memory.code == 3
    assert "in the memory of each process" in in_memory.err


def test_with_a_file_on_each_machine_it_says_whose_it_is(measured: Project, tmp_path: Path) -> None:
    project = make_project(tmp_path)
    (tmp_path / ".workfleet").mkdir()
    shutil.copy(measured.folder / ".workfleet" / "shop.db.metrics.db", tmp_path / ".workfleet" / "shop.metrics.db")
    ran = project("metrics", "query", DONE, "--since", "1d", "--json", WORKER_STORE="redis://127.0.0.1:1/0")
    host = os.uname().nodename
    assert ran.code == 0
    assert ran.err.startswith(f"only what workers on this machine ({host}) have measured")
    assert {each["host"] for each in ran.documents} == {host}
    assert measured("metrics", "ls").err == ""


# All machines together


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    yield from a_server()


@pytest.mark.full
def test_machines_that_share_a_database_are_seen_together(server: PostgresServer, tmp_path: Path) -> None:
    together = {"WORKER_METRICS__STORAGE": "postgres", "WORKER_METRICS__URL": server.database()}
    for machine in ("a", "b"):  # each with a store, and so a fleet, of its own: only the metrics are shared
        (tmp_path / machine).mkdir()
        project = make_project(tmp_path / machine)
        work(project, **together)
        assert not (project.folder / ".workfleet" / "shop.db.metrics.db").exists()
        ran = project("metrics", "query", DONE, "--total", "--since", "1d", "--step", "7d", "--json", **together)
        assert ran.err == ""
        assert [each["increase"] for each in ran.documents] == [4 if machine == "a" else 8]
    found = samples(project("metrics", "export", **together).out)
    assert found[DONE, "completed"] == 6


# How it is shown


def test_a_chart() -> None:
    assert chart([0, 1, 2, 4, None], height=2) == ["4 ┤   █ ", "0 ┤ ▄██·"]
    assert chart([-2, 0, 2], height=2) == [" 2 ┤  █", "-2 ┤ ██"]
    assert chart([0.001, 100], height=1) == ["100 ┤▁█"], "little is not nothing"
    assert chart([0, 0], height=1) == ["0 ┤  "]


def test_a_chart_of_anything() -> None:
    assert chart([], height=2) == ["0 ┤", "0 ┤"]
    assert chart([3], height=1) == ["3 ┤█"], "one point"
    assert chart([math.nan, 1, math.inf, -math.inf, None], height=1) == ["1 ┤·██ ·"]
    assert chart([1e308, -1e308, 0], height=2) == [" 1e+308 ┤█  ", "-1e+308 ┤█ █"]
    assert chart([5e-324, 0], height=1) == ["4.94e-324 ┤█ "]
    assert all(len(line) == len(chart([1] * 7)[0]) for line in chart([1] * 7))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3e20, "3e+20"),
        (math.inf, "inf"),
        (math.nan, "nan"),
        (0, "0"),
        (0.12345, "0.123"),
        (1500, "1.5k"),
        (2e6, "2M"),
        (-3e9, "-3G"),
        (4e12, "4T"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert short(value) == text


def test_steps_give_about_sixty_points() -> None:
    assert [nice_step(minutes * 60_000) // 1000 for minutes in (1, 5, 60, 1440, 14 * 1440, 10**6)] == [
        1, 5, 60, 1800, 21_600, 604_800,
    ]  # fmt: skip


def shown(*series: MetricSeries) -> Shown:
    return Shown(list(series), 0, 4_000, 1_000, 0.95, None)


def test_a_terminal_gets_a_chart_of_each_series(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    points = tuple(CounterPoint(at_ms=at_ms, increase=rate, rate=rate) for at_ms, rate in ((0, 2.0), (2_000, 4.0)))
    rates = MetricSeries(name="x_total", kind="counter", labels={"q": "a\x1b[31m"}, points=points)
    gauge = MetricSeries(
        name="g", kind="gauge", labels={}, points=(GaugePoint(at_ms=1_000, last=3, mean=2, min=1, max=3),)
    )
    out = Terminal()
    with redirect_stdout(out):
        write_charts(shown(rates, gauge))
    text = re.sub(r"\x1b\[\d*m", "", out.getvalue())
    assert "x_total q=a\\x1b[31m" in text, "labels cannot paint"
    assert "per second, last 0" in text
    assert "4 ┤  █ " in text
    assert "last value, last 3\n" in text
    assert "0 ┤·█··" in text
    assert "1970-01-01T00:00:00Z" in text


@pytest.mark.parametrize(("name", "told"), [("a_seconds", "76.5M s"), ("a_bytes", "76.5MB"), ("a_ratio", "76.5M")])
def test_a_chart_has_the_unit_that_the_name_says(name: str, told: str) -> None:
    point = GaugePoint(at_ms=0, last=76_509_184, mean=0.0000325, min=1, max=123_456.75)
    gauge = MetricSeries(name=name, kind="gauge", labels={}, points=(point,))
    out = Terminal()
    with redirect_stdout(out):
        write_charts(shown(gauge))
    assert f"last value, last {told}\n" in re.sub(r"\x1b\[\d*m", "", out.getvalue())
    table = io.StringIO()
    with redirect_stdout(table):
        write_points(shown(gauge))
    assert table.getvalue().splitlines()[1].split()[1:] == ["76509184", "3.25e-05", "1", "123457"]


def test_at_a_narrow_terminal_the_newest_steps_are_shown_under_their_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    old = GaugePoint(at_ms=2_000, last=3, mean=2, min=1, max=3)
    new = GaugePoint(at_ms=59_000, last=7, mean=7, min=7, max=7)
    gone, there = (
        MetricSeries(name="g", kind="gauge", labels={"a": value}, points=points)
        for value, points in (("gone", (old,)), ("there", (old, new)))
    )
    out = Terminal()
    with redirect_stdout(out):
        write_charts(Shown([gone, there], 0, 60_000, 1_000, 0.95, None))
    text = re.sub(r"\x1b\[\d*m", "", out.getvalue())
    assert "last value, last none in these steps, the newest 10 of 60 steps" in text
    assert "last value, last 7, the newest 10 of 60 steps" in text
    assert "0 ┤··········\n" in text
    assert "0 ┤·········█\n" in text
    assert text.count("1970-01-01T00:00:50Z 1970-01-01T00:01:00Z") == 2


def test_kinds_are_not_mixed_in_a_table() -> None:
    histogram = HistogramPoint(at_ms=0, count=3, sum=6, mean=2, p50=1.5, p90=2, p95=2.5, p99=3, quantile=2.75)
    out = io.StringIO()
    with redirect_stdout(out):
        write_points(
            shown(
                MetricSeries(name="h", kind="histogram", labels={"a": "b"}, points=(histogram,)),
                MetricSeries(
                    name="h", kind="gauge", labels={}, points=(GaugePoint(at_ms=0, last=3, mean=2, min=1, max=4),)
                ),
            )
        )
    assert [line.split() for line in out.getvalue().splitlines()] == [
        ["TIME", "COUNT", "MEAN", "P50", "P95", "LABELS"],
        ["1970-01-01T00:00:00Z", "3", "2", "1.5", "2.75", "a=b"],
        ["TIME", "LAST", "MEAN", "MIN", "MAX", "LABELS"],
        ["1970-01-01T00:00:00Z", "3", "2", "1", "4"],
    ]
