"""What runs in pools use is measured in the child, by job and by schedule, and kept with the worker's metrics."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Project
from workfleet.app import job_usage
from workfleet.app.job_usage import BUCKETS, CPU, PEAK_MEMORY, JobUsage
from workfleet.observe.metrics.registry import MetricsRegistry

MB = 1_000_000

APP = """
import subprocess
import sys
import time

from workfleet import App, Job, process, public

BURN = "import time\\nwhile time.process_time() < 0.3: pass"


@process("own", size=1)
class Own:
    @public
    def idle(self) -> None: ...


app = App("shop", jobs=[Own])


@app.handler("burn", queue="work", pool="cpu")
def burn(job: Job[float]) -> None:
    end = time.process_time() + job.data
    while time.process_time() < end:
        pass


@app.handler("start", queue="work", pool="cpu")
def start(job: Job[None]) -> None:
    subprocess.run([sys.executable, "-c", BURN], check=True)


@app.handler("hold", queue="work", pool=Own)
async def hold(job: Job[int]) -> None:
    held = bytearray(b"x") * job.data
    del held


@app.handler("idle", queue="work", pool=Own)
async def idle(job: Job[None]) -> None: ...


@app.handler("broken", queue="work", pool="cpu", attempts=1)
def broken(job: Job[float]) -> None:
    burn(job)
    raise ValueError("broken")


@app.handler("here", queue="work")
async def here(job: Job[None]) -> None: ...


@app.schedule("nightly", every="1d", run_on_start=True, pool="cpu")
def nightly() -> None:
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
"""


@pytest.fixture
def shop(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.write("app.py", APP)
    project.write("workfleet.yaml", "app: app.py\n")
    project.make_store("shop")
    return project


def worked_off(shop: Project, *jobs: tuple[str, str], **environ: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Run these jobs; the measured usage by metric and job."""
    for name, payload in jobs:
        assert shop("enqueue", "work", name, payload).code == 0
    ran = shop("run", "--until-idle", **environ)
    assert ran.code == 0, ran.err
    exported = shop("metrics", "export", "--format", "json").documents
    return {(each["name"], each["labels"]["job"]): each for each in exported if each["name"] in (CPU, PEAK_MEMORY)}


def runs(sample: dict[str, Any]) -> int:
    return sum(sample["buckets"].values())


def test_processor_time_of_runs_is_measured_by_job_and_by_schedule(shop: Project) -> None:
    found = worked_off(shop, ("burn", "0.3"), ("burn", "0.6"), ("start", "null"), ("broken", "0.3"), ("here", "null"))
    queues = {"burn": "work", "start": "work", "broken": "work", "nightly": "shop-schedules"}
    assert {(name, each["labels"]["job"], each["labels"]["queue"]) for (name, _), each in found.items()} == {
        (name, job, queue) for name in (CPU, PEAK_MEMORY) for job, queue in queues.items()
    }
    for job, times, least in (("burn", 2, 0.9), ("start", 1, 0.3), ("broken", 1, 0.3), ("nightly", 1, 0.3)):
        sample = found[CPU, job]
        assert set(sample["labels"]) == {"job", "queue"}
        assert (sample["kind"], runs(sample)) == ("histogram", times)
        assert least <= sample["value"] < least + 2
        assert runs(found[PEAK_MEMORY, job]) == times


def test_peak_memory_is_that_of_the_run_and_not_of_the_one_before(shop: Project) -> None:
    # A pool of one child: the run that holds little comes after the one that held much, in the same process.
    found = worked_off(shop, ("idle", "null"), ("hold", str(80 * MB)), ("idle", "null"))
    idle, hold = found[PEAK_MEMORY, "idle"], found[PEAK_MEMORY, "hold"]
    assert (runs(idle), runs(hold)) == (2, 1)
    assert 80 * MB < hold["value"] < 80 * MB + idle["value"]
    if resets():
        assert hold["value"] - idle["value"] / 2 > 70 * MB
    assert set(map(float, hold["buckets"])) == {*BUCKETS, float("inf")}


@pytest.mark.full
@pytest.mark.parametrize(
    ("environ", "measured"),
    [
        ({"WORKER_METRICS__COLLECTION__ENABLED": "false"}, set[str]()),
        ({"WORKER_METRICS__COLLECTION__CUSTOM": "false"}, {"hold", "nightly"}),
    ],
)
def test_it_is_a_part_of_collection_and_nothing_of_the_application_s(
    shop: Project, environ: dict[str, str], measured: set[str]
) -> None:
    assert {job for _, job in worked_off(shop, ("hold", "1"), **environ)} == measured


def resets() -> bool:
    """Whether this system begins a peak anew."""
    return os.access("/proc/self/clear_refs", os.W_OK)


def test_where_a_peak_cannot_begin_anew_it_is_the_process_s(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("clear_refs")

    monkeypatch.setattr(job_usage, "open", refuse, raising=False)
    monkeypatch.setattr(job_usage, "peak_bytes", lambda _pid: None)
    monkeypatch.setattr(job_usage, "own_peak_bytes", lambda: 3 * 2**23)
    registry = MetricsRegistry()
    with JobUsage(registry).measured("resize", "images"):
        pass
    (peak,) = (each for each in registry.snapshot() if each.name == PEAK_MEMORY)
    assert (peak.labels, peak.value, peak.count) == ((("job", "resize"), ("queue", "images")), 3 * 2**23, 1)
