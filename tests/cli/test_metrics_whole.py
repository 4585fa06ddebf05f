"""What a real worker with a pool, schedules and locks tells of itself: by HTTP, in its file and in its store."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families as parsed

from workfleet.observe.metrics.catalogue import CATALOGUE

from .conftest import Project, wait_for
from .running import Running, running
from .test_http import ask, free_port

APP = """
import os
import signal
import time

from workfleet import App, Fail, Job, Locks, Metrics, Retry, metric

app = App("shop")


@app.handler("greet", queue="work", attempts=3, backoff="1ms")
@metric("greet")
async def greet(job: Job[str], metrics: Metrics, locks: Locks) -> None:
    metrics.counter("greetings_total", labels={"who": job.data, "how": "well"})
    metrics.counter("greetings_total", 2, labels={"how": "well", "who": job.data})
    metrics.gauge("greeting_last", float("nan"))
    async with locks.lock("ledger", wait="30s"):
        if job.data == "again" and job.attempt < 3:
            raise Retry(after="1ms")
        if job.data == "bad":
            raise Fail("bad")


@app.handler("block", queue="work", timeout="2m")
async def block(job: Job[float]) -> None:
    time.sleep(job.data)


@app.handler("die", queue="work")
async def die(job: Job[None]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@app.handler("compute", queue="work", pool="cpu")
def compute(job: Job[float]) -> None:
    end = time.process_time() + job.data
    held = bytearray(b"x") * 50_000_000
    while time.process_time() < end:
        pass


@app.handler("many", queue="work", timeout="2m")
async def many(job: Job[int], metrics: Metrics) -> None:
    for number in range(job.data):
        metrics.counter("visits_total", labels={"visitor": str(number)})


@app.handler("many-in-child", queue="work", pool="cpu", timeout="2m")
def many_in_child(job: Job[int], metrics: Metrics) -> None:
    for number in range(job.data):
        metrics.counter("visits_total", labels={"visitor": str(number)})


@app.schedule("daily", every="1d", run_on_start=True)
async def daily() -> None: ...


@app.schedule("often", every="1s")
async def often() -> None: ...
"""
OFTEN = {
    "WORKER_METRICS__COLLECTION__INTERVAL": "500ms",
    "WORKER_METRICS__COLLECTION__STORE_INTERVAL": "1s",
    "WORKER_HEALTH__INTERVAL": "1s",
    "WORKER_METRICS__TEXTFILE": "shop.prom",
    "WORKER_HTTP_HOST": "127.0.0.1",
}
SELDOM = {
    "workfleet_jobs_recovered_total", "workfleet_job_claims_lost_total", "workfleet_store_errors_total",
    "workfleet_service_restarts_total", "workfleet_pool_restarts_total", "workfleet_pool_child_deaths_total",
    "workfleet_pool_children_recycled_total", "workfleet_worker_deaths_total",
    "workfleet_system_cpu_throttled_seconds_total", "workfleet_pool_child_resident_memory_bytes",
    "workfleet_pool_child_cpu_ratio", "workfleet_schedule_last_fire_timestamp_seconds",
    "workfleet_metrics_file_timestamp_seconds",
}  # fmt: skip
"""What is told only of trouble, of a limit, in the file, or of pools that lived for a while."""

Samples = dict[tuple[str, ...], float]


def samples(text: str) -> Samples:
    """By name, without ours before it, and label values but for this worker's, in the order of label names."""
    return {
        (
            sample.name.removeprefix("workfleet_"),
            *(value for label, value in sorted(sample.labels.items()) if label not in ("host", "worker")),
        ): sample.value
        for family in parsed(text)
        for sample in family.samples
        if not sample.name.endswith("_bucket")
    }


@pytest.fixture
def shop(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.write("app.py", APP)
    project.write("workfleet.yaml", "app: app.py\n")
    return project


def told_when(port: int, ready: Callable[[Samples], object], what: str) -> str:
    """The text of /metrics as soon as it is ready."""

    def found() -> str:
        status, text = ask(port, "/metrics")
        return text if status == 200 and ready(samples(text)) else ""

    return str(wait_for(found, what))


def started(run: Running, port: int) -> None:
    run.wait_for("ready, listening")
    try:
        wait_for(lambda: ask(port, "/readyz")[0] == 200, "a ready fleet")
    except AssertionError as error:
        raise AssertionError(f"{error}: {ask(port, '/readyz')[1]}{''.join(run.lines)}") from None


def test_a_whole_worker(shop: Project) -> None:
    port = free_port()
    with running(shop, "run", **OFTEN, WORKER_HTTP_PORT=str(port)) as run:
        started(run, port)
        for name, payload in (("greet", '"Ada"'), ("greet", '"again"'), ("greet", '"bad"'), ("compute", "0.3")):
            assert shop("enqueue", "work", name, payload).code == 0

        def all_done(found: Samples) -> bool:
            ended = sum(value for key, value in found.items() if key[0] == "jobs_total" and key[3] == "work")
            in_store = [found.get(("queue_jobs", "work", state)) for state in ("completed", "failed", "waiting")]
            return (
                (ended, in_store) == (6, [3, 1, 0])
                and ("pool_size", "cpu") in found
                and found.get(("health_status", "store", "healthy")) == 1
            )

        text = told_when(port, all_done, "jobs, their queue and a healthy store")
        found = samples(text)
        check_jobs(found)
        check_the_rest(found)
        assert content_type(port) == "text/plain; version=0.0.4; charset=utf-8"
        names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE workfleet_")}
        assert set(CATALOGUE) - SELDOM <= names <= set(CATALOGUE)
        clean(text)

        def three(found: Samples) -> bool:
            return found.get(("schedule_fires_total", "fired", "often"), 0) >= 3

        told_when(port, three, "a schedule that goes on")
        os.kill(run.process.pid, signal.SIGTERM)
        assert run.end()[0] == 0
    check_the_end(shop)


def content_type(port: int) -> str | None:
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", "/metrics?x=y")
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.getheader("Content-Type")


def check_jobs(found: Samples) -> None:
    ends = {key[1:]: value for key, value in found.items() if key[0] == "jobs_total" and key[3] == "work"}
    assert ends == {
        ("greet", "completed", "work"): 2, ("greet", "retried", "work"): 2, ("compute", "completed", "work"): 1,
        ("greet", "failed", "work"): 1,
    }  # fmt: skip
    assert found["job_retries_total", "greet", "work"] == 2
    assert found["job_duration_seconds_count", "greet", "work"] == found["job_wait_seconds_count", "greet", "work"] == 5
    assert 0.3 <= found["job_cpu_seconds_sum", "compute", "work"] < 3
    assert found["job_cpu_seconds_count", "compute", "work"] == 1
    assert 50_000_000 <= found["job_peak_memory_bytes_sum", "compute", "work"] < 500_000_000
    # A schedule's runs are those of the job of its name.
    assert found["jobs_total", "daily", "completed", "shop-schedules"] == 1
    assert found["jobs_enqueued_total", "daily", "shop-schedules"] == 1
    assert ("jobs_enqueued_total", "greet", "work") not in found, "the command line does not report"
    assert found["job_duration_seconds_count", "daily", "shop-schedules"] == 1
    assert found["job_wait_seconds_count", "daily", "shop-schedules"] == 1
    assert found["schedule_runs_total", "completed", "daily"] == 1
    assert found["schedule_run_duration_seconds_count", "daily"] == 1
    assert found["schedule_run_wait_seconds_count", "daily"] == 1
    # The application's own, whatever the order of labels.
    assert {key[1:]: value for key, value in found.items() if key[0] == "greetings_total"} == {
        ("well", "Ada"): 3, ("well", "again"): 9, ("well", "bad"): 3,
    }  # fmt: skip
    assert found["greet_calls_total", "completed"] == 2
    assert ("greeting_last",) not in found
    assert found["metrics_dropped_total", "not_finite"] == 5


def check_the_rest(found: Samples) -> None:
    assert found["schedule_overdue_seconds", "daily"] == 0
    assert found["schedule_next_slot_timestamp_seconds", "daily"] > 1_700_000_000
    assert found["locks_total", "acquired"] == 5
    assert found["locks_held",] in (0, 1)
    assert found["workers",] == 1
    assert (found["queue_paused", "work"], found["queue_oldest_job_age_seconds", "work"]) == (0, 0)
    assert found["pool_calls_total", "job:compute", "completed", "cpu"] == 1
    assert found["pool_size", "cpu"] >= 1
    assert found["process_resident_memory_bytes",] > 10_000_000
    assert found["process_cpu_seconds_total",] > 0.1
    assert found["process_threads",] >= 1
    assert found["system_memory_limit_bytes",] > found["system_memory_used_bytes",] > 0
    assert found["system_cpu_limit_cores",] > 0
    health = {key[1:]: value for key, value in found.items() if key[0] == "health_status"}
    assert {indicator for indicator, _ in health} == {
        "store", "event-loop", "memory", "disk", "queues", "schedules", "pools",
    }  # fmt: skip
    assert health["store", "unhealthy"] == health["store", "degraded"] == 0
    for indicator in {indicator for indicator, _ in health}:
        assert sum(value for key, value in health.items() if key[0] == indicator) == 1


def check_the_end(shop: Project) -> None:
    """The file and the store have all that was counted up to the stop, and agree."""
    text = (shop.folder / "shop.prom").read_text()
    clean(text)
    last = samples(text)
    fired = last["schedule_fires_total", "fired", "often"]
    ran = sum(value for key, value in last.items() if key[0] == "jobs_total" and key[1] == "often")
    assert 3 <= fired == last["schedule_lateness_seconds_count", "often"] <= ran + 1
    exported = shop("metrics", "export")
    clean(exported.out)
    kept = samples(exported.out)
    counted = {key: value for key, value in last.items() if key[0].endswith(("_total", "_count"))}
    assert counted == {key: kept.get(key) for key in counted}


def clean(text: str) -> None:
    """What promtool says of it, where there is one."""
    promtool = shutil.which("promtool")
    if promtool is not None:
        done = subprocess.run([promtool, "check", "metrics"], input=text, check=False, capture_output=True, text=True)
        assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.full
def test_a_schedule_that_should_have_fired_and_has_not_is_overdue(shop: Project) -> None:
    port = free_port()
    idle = {"WORKER_SCHEDULER_ENABLED": "false", "WORKER_HTTP_PORT": str(port)}
    with running(shop, "run", **OFTEN, **idle) as run:
        started(run, port)
        overdue = ("schedule_overdue_seconds", "often")
        first = samples(told_when(port, lambda found: found.get(overdue, 0) > 1, "an overdue schedule"))
        told_when(port, lambda found: found[overdue] > first[overdue], "a schedule that is more overdue")
        assert first["schedule_overdue_seconds", "daily"] >= 0
        assert not any(key[0] == "schedule_fires_total" for key in first)


@pytest.mark.full
def test_a_killed_worker_loses_what_it_has_counted_since_the_last_flush_and_no_more(shop: Project) -> None:
    port = free_port()
    settings = {**OFTEN, "WORKER_METRICS__FLUSH_INTERVAL": "1d", "WORKER_HTTP_PORT": str(port)}
    done = ("jobs_total", "greet", "completed", "work")
    with running(shop, "run", **settings) as run:
        started(run, port)
        assert shop("enqueue", "work", "greet", '"Ada"').code == 0
        told_when(port, lambda found: found.get(done) == 1, "a job")
        (worker,) = psutil.Process(run.process.pid).children()
        worker.kill()
        # By HTTP it goes on: the supervisor remembers what was told.
        assert shop("enqueue", "work", "greet", '"Grace"').code == 0
        both = "another one, by another worker, and the death of the first"
        found = samples(told_when(port, lambda found: found.get(done) == 2 and found["worker_deaths_total",] > 0, both))
        assert found["worker_deaths_total",] == 1
        os.kill(run.process.pid, signal.SIGTERM)
        assert run.end()[0] == 0
    (kept,) = [
        each
        for each in shop("metrics", "export", "--format", "json").documents
        if each["name"] == "workfleet_jobs_total" and each["labels"]["job"] == "greet"
    ]
    assert kept["value"] == 1


@pytest.mark.full
def test_a_job_that_kills_its_workers_is_among_the_failures(shop: Project) -> None:
    port = free_port()
    # Without schedules, so that no run of theirs dies with it and is suspected, too.
    alone = {"WORKER_SCHEDULER_ENABLED": "false", "WORKER_MAX_CRASHES": "2", "WORKER_HTTP_PORT": str(port)}
    with running(shop, "run", **OFTEN, **alone) as run:
        started(run, port)
        assert shop("enqueue", "work", "die").code == 0
        crashed = ("jobs_total", "die", "crashed", "work")
        found = samples(told_when(port, lambda found: found.get(crashed) == 1, "a job that failed for good"))
        assert found["jobs_total", "die", "retried", "work"] == found["job_retries_total", "die", "work"] == 1
        assert found["jobs_recovered_total", "die", "work"] == 2
        os.kill(run.process.pid, signal.SIGTERM)
        assert run.end()[0] == 0
    told = [json.loads(line) for line in run.lines if '"event":"job.recovered"' in line]
    assert [line["level"] for line in told] == ["warning", "error"]


@pytest.mark.full
def test_a_worker_whose_loop_is_blocked_is_not_shown_as_well(shop: Project) -> None:
    port = free_port()
    well, blocked = ("health_status", "event-loop", "healthy"), ("worker_loop_blocked_seconds",)
    with running(shop, "run", **OFTEN, WORKER_HTTP_PORT=str(port)) as run:
        started(run, port)
        assert shop("enqueue", "work", "greet", '"Ada"').code == 0
        done = ("jobs_total", "greet", "completed", "work")
        found = samples(told_when(port, lambda found: found.get(done) == 1 and found.get(well) == 1, "a job"))
        assert found[blocked] == 0
        assert shop("enqueue", "work", "block", "12").code == 0
        text = told_when(port, lambda found: found[blocked] >= 6, "a blocked loop")
        left = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE") and line.endswith(" gauge")}
        assert left == {"workfleet_worker_loop_blocked_seconds"}, "nobody knows how the others are"
        assert samples(text)[done] == 1
        clean(text)
        told_when(port, lambda found: found[blocked] == 0 and found.get(("workers",)) == 1, "a loop that goes on")
        os.kill(run.process.pid, signal.SIGTERM)
        assert run.end()[0] == 0
    (kept,) = shop("metrics", "query", "workfleet_worker_loop_blocked_seconds", "--step", "7d", "--json").documents
    assert kept["max"] >= 5


@pytest.mark.full
@pytest.mark.parametrize("job", ["many", "many-in-child"])
def test_a_hundred_thousand_label_values_from_a_handler(shop: Project, job: str) -> None:
    port = free_port()
    with running(shop, "run", **OFTEN, WORKER_HTTP_PORT=str(port)) as run:
        started(run, port)
        before = memory(run)
        assert shop("enqueue", "work", job, "100000").code == 0

        def all_told(found: Samples) -> bool:
            kept = sum(value for key, value in found.items() if key[0] == "visits_total")
            return kept + found.get(("metrics_dropped_total", "series_limit"), 0) == 100_000

        found = samples(told_when(port, all_told, "what was counted and dropped"))
        assert sum(key[0] == "visits_total" for key in found) == 10_000
        assert found["metrics_dropped_total", "series_limit"] == 90_000
        assert memory(run) - before < 150_000_000
        # Ours are told all the same, of what begins later, too.
        assert shop("enqueue", "work", "greet", '"Ada"').code == 0
        told_when(port, lambda found: found.get(("jobs_total", "greet", "completed", "work")) == 1, "another job")
        os.kill(run.process.pid, signal.SIGTERM)
        assert run.end()[0] == 0


def memory(run: Running) -> int:
    return sum(process.memory_info().rss for process in run.family())
