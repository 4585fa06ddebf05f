"""What only the supervisor can tell: the deaths of its workers, and when the text file was written."""

from __future__ import annotations

import signal

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families as parsed

from .conftest import Project, wait_for
from .running import running
from .test_http import ask, free_port

TEXTFILE = "metrics/shop.prom"


def test_the_death_of_a_worker_is_counted_and_kept(project: Project) -> None:
    file = project.folder / TEXTFILE
    often = {"WORKER_METRICS__COLLECTION__INTERVAL": "500ms", "WORKER_METRICS__FLUSH_INTERVAL": "500ms"}
    with running(project, "run", WORKER_METRICS__TEXTFILE=TEXTFILE, **often) as run:
        seen = run.wait_for("ready, listening")
        (worker,) = psutil.Process(run.process.pid).children()
        worker.send_signal(signal.SIGKILL)
        wait_for(lambda: file.exists() and "workfleet_worker_deaths_total 1\n" in file.read_text(), "the death is told")
        run.wait_for("ready, listening", after=seen)
        run.process.terminate()
        assert run.end()[0] == 0
    (death,) = project("metrics", "query", "workfleet_worker_deaths_total", "--step", "7d", "--json").documents
    assert death["increase"] == 1


@pytest.mark.full
def test_deaths_are_told_though_no_worker_lives_long_enough_to_tell_of_anything(project: Project) -> None:
    port, name = free_port(), "workfleet_worker_deaths_total"
    seldom = {"WORKER_METRICS__COLLECTION__INTERVAL": "1d", "WORKER_METRICS__FLUSH_INTERVAL": "1d"}
    with running(project, "run", **seldom, WORKER_HTTP_PORT=str(port)) as run:
        seen = 0
        for number in range(1, 4):
            seen = run.wait_for("ready, listening", after=seen)
            assert f"{name} {number - 1}\n" in ask(port, "/metrics")[1]
            (worker,) = psutil.Process(run.process.pid).children()
            worker.kill()
            wait_for(lambda told=number: f"{name} {told}\n" in ask(port, "/metrics")[1], "the death is told")  # type: ignore[misc]
        run.wait_for("ready, listening", after=seen)
        run.process.terminate()
        assert run.end()[0] == 0
    (deaths,) = project("metrics", "query", name, "--step", "7d", "--json").documents
    assert deaths["increase"] == 3, "each once"


BRIEF = """
import os
import threading

from workfleet import App

app = App("shop")


@app.on_bootstrap
async def begin() -> None:
    threading.Timer(0.5, os._exit, (1,)).start()
"""


@pytest.mark.full
def test_the_file_of_a_fleet_that_gave_up_has_its_last_death(project: Project) -> None:
    project.write("app.py", BRIEF)
    file = project.folder / TEXTFILE
    with running(project, "run", WORKER_METRICS__TEXTFILE=TEXTFILE) as run:
        run.process.wait(120)  # after five lives or more
        assert run.end()[0] == 1
    deaths = sum("worker process" in line and "died" in line for line in run.lines)
    assert deaths >= 5
    text = file.read_text()
    assert f"workfleet_worker_deaths_total {deaths}\n" in text
    assert "workfleet_metrics_file_timestamp_seconds{" in text, "it grows old"


@pytest.mark.full
def test_a_file_that_a_killed_fleet_leaves_says_when_it_was_written(project: Project) -> None:
    file = project.folder / TEXTFILE
    often = {"WORKER_METRICS__COLLECTION__INTERVAL": "500ms"}

    def written() -> float:
        families = parsed(file.read_text()) if file.exists() else ()
        found = [family for family in families if family.name == "workfleet_metrics_file_timestamp_seconds"]
        return float(found[0].samples[0].value) if found else 0.0

    with running(project, "run", WORKER_METRICS__TEXTFILE=TEXTFILE, **often) as run:
        first = wait_for(written, "a file that says when it was written")
        last = wait_for(lambda: written() > first and written(), "another one")
        run.process.kill()
        run.end()
        assert last <= written() <= file.stat().st_mtime + 1
    with running(project, "run", WORKER_METRICS__TEXTFILE=TEXTFILE, **often) as run:
        wait_for(lambda: written() > last, "one of another fleet")
        run.process.terminate()
        assert run.end()[0] == 0
    assert written() == 0, "it ended in order"
