"""What real processes log: a supervisor, workers and pool children, to real files."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.running import Running, start, until
from tests.fleet.stored import finished, put, stored
from tests.fleet.stored import until as until_stored
from workfleet.model.jobs import JobRecord
from workfleet.ports.stores import Store

PROGRAM = Path(__file__).parent / "log_program.py"
AUDIT = {"log__destinations__audit__to": "audit.jsonl", "log__destinations__stderr__to": "stderr"}
JOBS = ("in_loop", "in_thread", "in_pool", "raises", "speak", "die")


def enqueued(folder: Path, *jobs: str) -> None:
    """Jobs whose ids are their names."""

    async def enqueue() -> None:
        async with stored(folder, "logged") as store:
            for name in jobs:
                await put(store, name, name=name, queue="q")

    asyncio.run(enqueue())


def run(folder: Path, *jobs: str, trouble: str = "", **settings: str) -> Running:
    """A run of these jobs, ended when they are done."""
    enqueued(folder, *jobs)
    os.environ["TEST_TROUBLE"] = trouble
    try:
        running = start(folder, "--until-idle", program=PROGRAM, heartbeat_enabled="false", **AUDIT, **settings)
    finally:
        del os.environ["TEST_TROUBLE"]
    assert running.wait() == 0, running.log()
    return running


async def active(store: Store, job: str) -> JobRecord | None:
    (record,) = await store.jobs.get([job])
    return record if record is not None and record.state == "active" else None


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def kept(folder: Path, job: str) -> list[str]:
    """What the store has of a job, each without its time."""

    async def ask() -> list[str]:
        async with stored(folder, "logged") as store:
            return await store.jobs.logs(job)

    return [line.split(" ", 1)[1] if line[:2] == "20" else line for line in asyncio.run(ask())]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Running:
    """All jobs of the program, at levels and with secrets that a settings file and the environment name."""
    folder = tmp_path_factory.mktemp("ran")
    (folder / "workfleet.yaml").write_text("log: {levels: {shop.noisy: error}}\n")
    return run(folder, *JOBS, log__redact_keys="iban", log__jobs__level="debug")


def test_user_lines_of_every_kind_of_code_name_their_run(ran: Running) -> None:
    said = [line for line in lines(ran.folder / "audit.jsonl") if line["message"].endswith(("by logging", "structlog"))]
    places = {
        "in_loop": ["loop", "task", "to_thread", "call"],
        "in_thread": ["thread"],
        "in_pool": ["pool"],
        "tick": ["schedule"],
    }
    for job, wheres in places.items():
        of_job = [line for line in said if line["job"] == job]
        assert [line["message"] for line in of_job] == [
            f"{where} by {how}" for where in wheres for how in ("logging", "structlog")
        ]
        for line in of_job:
            assert line["attempt"] == 1
            assert line.get("size") == (640 if "structlog" in line["message"] else None)
            assert line["logger"] == ("shop.images" if "structlog" in line["message"] else "shop")
            if job == "tick":
                assert (line["queue"], line["schedule"]) == ("logged-schedules", "tick")
            else:
                assert (line["job_id"], line["queue"]) == (job, "q")
            in_child = line["message"].split()[0] in ("call", "pool")
            assert ({"pool", "pid"} <= set(line)) is in_child
    assert len(said) == 14


def test_a_job_keeps_what_its_code_logs_wherever_it_runs(ran: Running) -> None:
    for job, wheres in (("in_loop", ["loop", "task", "to_thread", "call"]), ("in_thread", ["thread"])):
        assert kept(ran.folder, job) == [
            line
            for where in wheres
            for line in (
                f"info     shop: {where} by logging",
                f"info     shop.images: {where} by structlog size=640",
            )
        ]
    assert kept(ran.folder, "in_pool") == [
        "said by job.log",
        "info     shop: pool by logging",
        "info     shop.images: pool by structlog size=640",
        "debug    shop: debug in a pool",
    ]
    assert kept(ran.folder, "raises") == [f"warning  shop: before the end of attempt {number}" for number in (1, 2)]


def test_a_level_of_jobs_shows_its_lines_nowhere_else(ran: Running) -> None:
    assert "debug in a pool" not in (ran.folder / "audit.jsonl").read_text() + ran.log()


def test_children_log_once_at_their_levels_and_what_they_print_is_told(ran: Running) -> None:
    of_child = [
        line
        for line in lines(ran.folder / "audit.jsonl")
        if line.get("job_id") == "speak" or ("makers[" in line["message"] and "words" not in line["message"])
    ]
    printed = [line["line"] for line in of_child if line.get("event") == "child.printed"]
    assert printed[:3] in (
        ["from C to stdout", "raw on stderr", "begun "],
        ["raw on stderr", "from C to stdout", "begun "],
        ["from C to stdout", "begun ", "raw on stderr"],
    )
    said = [(line["level"], line["logger"], line["message"]) for line in of_child if "event" not in line]
    assert said == [
        ("info", "shop", "in the worker"),
        ("warning", "shop", "password='***'"),
        ("error", "shop.noisy", "a child's error"),
        ("error", "shop.images", "failed in a child"),
    ]
    assert "failed in a child" in ran.log()


def test_secrets_come_out_nowhere(ran: Running) -> None:
    (deep,) = [line["deep"] for line in lines(ran.folder / "audit.jsonl") if "deep" in line]
    assert deep == {"api_key": "***", "iban": "***"}
    everything = [ran.log(), *((ran.folder / name).read_text() for name in ("audit.jsonl", "notes", "handled"))]
    for text in [*everything, *("\n".join(kept(ran.folder, job)) for job in JOBS)]:
        assert "hunter2" not in text
        assert "DE1" not in text


def test_a_death_is_told_once_with_its_last_words(ran: Running) -> None:
    for text in ((ran.folder / "audit.jsonl").read_text(), ran.log()):
        assert len([line for line in text.splitlines() if "famous last words token='***'" in line]) == 1
        assert len([line for line in text.splitlines() if "Fatal Python error: Segmentation fault" in line]) == 1
    found = lines(ran.folder / "audit.jsonl")
    (died,) = [line for line in found if line.get("event") == "child.died"]
    assert (died["how"], died["method"], "last_words" in died) == ("signal SIGSEGV", "die", False)
    (settled,) = [line for line in found if line.get("event") == "job.settled" and line["job_id"] == "die"]
    assert settled["error"].endswith("died in die (signal SIGSEGV)")


def test_destinations_of_the_application_get_every_line_in_their_forms(ran: Running) -> None:
    notes = lines(ran.folder / "notes")
    # Those before it is known which application it is are the supervisor's.
    assert [line for line in lines(ran.folder / "audit.jsonl") if line not in notes] == []
    assert "debug in a pool" in [line["message"] for line in notes]
    assert "WARNING shop password='***' speak" in (ran.folder / "handled").read_text().splitlines()


@pytest.mark.parametrize("trouble", ["throws", "logs", "hangs"])
def test_whatever_becomes_of_a_destination_the_others_and_the_jobs_go_on(trouble: str, tmp_path: Path) -> None:
    run(tmp_path, "in_thread", trouble=trouble)
    notes, audit = lines(tmp_path / "notes"), lines(tmp_path / "audit.jsonl")
    told = [line for line in audit if line.get("event") == "log.failed"]
    said_by_it = [line for line in audit if line["logger"] == "courier"]
    assert [line["job_id"] for line in audit if line.get("job") == "in_thread" and "outcome" in line] == ["in_thread"]
    assert [line["message"] for line in audit if "thread by" in line["message"]] == [
        "thread by logging",
        "thread by structlog",
    ]
    assert len(said_by_it) == (len(notes) if trouble == "logs" else 0)
    if trouble == "throws":
        assert [(line["destination"], line["lost"]) for line in told] == [("notes", 1), ("notes", len(notes) - 1)]
        assert told[0]["error"] == "RuntimeError: no network: token='***'"
    elif trouble == "hangs":
        assert len(notes) == 1
        assert [(line["destination"], line["error"]) for line in told] == [
            ("notes", "it had not taken them 0.5 s after the end")
        ]
    else:
        assert told == []


def test_supervisor_and_workers_write_to_one_file_and_open_it_anew(tmp_path: Path) -> None:
    running = start(tmp_path, "--processes", "2", program=PROGRAM, log__destinations__audit__to="audit.jsonl")
    audit, old = tmp_path / "audit.jsonl", tmp_path / "audit.1"
    until(lambda: audit.exists() and audit.read_text().count('"worker.ready"') == 2, "both workers are ready")
    assert running.log() == ""
    audit.rename(old)
    running.workers()[0].send_signal(signal.SIGKILL)
    until(lambda: audit.exists() and '"worker.ready"' in audit.read_text(), "another worker")
    running.supervisor.send_signal(signal.SIGTERM)
    assert running.wait() == 0
    events = [line["event"] for line in lines(audit) if "event" in line]
    assert events.count("worker.died") == 1  # told by the supervisor
    assert events.count("worker.stopped") == 2
    assert "worker.died" not in old.read_text()


def alive(folder: Path) -> bool:
    probe = [sys.executable, "-m", "workfleet", "probe", "live", "--max-age", "5s"]
    return subprocess.run(probe, cwd=folder, capture_output=True, check=False, timeout=60).returncode == 0


@pytest.mark.full
@pytest.mark.timeout(240)
def test_jobs_go_on_while_nobody_reads_the_log_and_then_it_is_told_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "workfleet.yaml").touch()
    reading, writing = os.pipe()
    running = start(tmp_path, "--log-format=json", program=PROGRAM, stderr=writing, lease="3s", log__jobs__level="off")
    os.close(writing)
    many = 60_000

    async def work() -> None:
        async with stored(tmp_path, "logged") as store:
            await put(store, "wait", name="wait", queue="q", payload="go")
            claimed = await until_stored(lambda: active(store, "wait"), "it runs")
            await put(store, "many", name="many", queue="q", payload=many)
            assert (await finished(store, "many")).state == "completed"

            async def renewed() -> bool | None:
                now = await active(store, "wait")
                assert now is not None
                assert now.lease_until_ms is not None
                assert claimed.lease_until_ms is not None
                return now.lease_until_ms > claimed.lease_until_ms + 6_000 or None

            await until_stored(renewed, "its lease was renewed for twice its length")
            assert alive(tmp_path)
            (tmp_path / "go").touch()
            assert (await finished(store, "wait")).crashes == 0

    asyncio.run(work())
    with os.fdopen(reading) as log:
        told = list[dict[str, Any]]()
        while not told or told[-1].get("event") != "log.recovered":
            told.append(json.loads(log.readline()))
        read = [line["message"].split()[1] for line in told if line["message"].startswith("line ")]
        assert read == [str(number) for number in range(len(read))]
        assert 60_000 > len(read) > 10_000
        # What else was said of the jobs meanwhile is missing, too.
        assert many - len(read) < told[-1]["lost"] < many - len(read) + 10
        running.supervisor.send_signal(signal.SIGTERM)
        log.read()
    assert running.wait() == 0


@pytest.mark.full
@pytest.mark.timeout(240)
def test_with_a_full_pipe_from_the_start_a_fleet_replaces_its_workers_and_stops_in_time(tmp_path: Path) -> None:
    (tmp_path / "workfleet.yaml").touch()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, bytes(4096))
    os.set_blocking(writing, True)
    running = start(tmp_path, "--log-format=json", "--log-level=debug", program=PROGRAM, stderr=writing)
    enqueued(tmp_path, "in_thread", "raises")
    until(lambda: alive(tmp_path), "the fleet lives")

    async def completed(*jobs: str) -> None:
        async with stored(tmp_path, "logged") as store:
            for job in jobs:
                assert (await finished(store, job)).state in ("completed", "failed")

    asyncio.run(completed("in_thread", "raises"))
    (worker,) = running.workers()
    worker.kill()
    until(lambda: [each.pid for each in running.workers()] not in ([], [worker.pid]), "another worker")
    enqueued(tmp_path, "in_pool")
    asyncio.run(completed("in_pool"))
    assert alive(tmp_path)
    running.supervisor.send_signal(signal.SIGTERM)
    assert running.wait() == 0
    os.close(writing)
    os.close(reading)


def test_following_a_job_shows_what_it_logs_while_it_runs(tmp_path: Path) -> None:
    running = start(tmp_path, program=PROGRAM)
    until(lambda: "ready, listening" in running.log(), "the worker is ready")
    environ = {**os.environ, "TEST_FOLDER": str(tmp_path)}
    work = [sys.executable, "-m", "workfleet"]
    enqueue = [*work, "enqueue", "q", "wait", '"go"', "--id", "wait", "--app", str(PROGRAM)]
    subprocess.run(enqueue, cwd=tmp_path, env=environ, check=True, capture_output=True)
    follow = [*work, "jobs", "logs", "wait", "-f", "--app", str(PROGRAM)]
    with subprocess.Popen(follow, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline().endswith("info     shop: waiting\n")
        (tmp_path / "go").touch()
        assert follower.stdout.readline().endswith("info     shop: waited\n")
        assert follower.stdout.read() == ""
        assert follower.wait(60) == 0
    running.supervisor.send_signal(signal.SIGTERM)
    assert running.wait() == 0


IN_CODE = """
import asyncio, os, signal
from pathlib import Path
from workfleet import App, Job, LoggerModule, Pool
from makers import Maker

HERE = Path(os.environ["TEST_FOLDER"])
logs = LoggerModule(
    level="error", redact=False, levels={"shop": "info"}, jobs={"level": "warning", "lines": 5, "size": "1KiB"},
    destinations={"audit": {"to": HERE / "audit.jsonl", "level": "info"}, "people": {"to": "stdout"}},
)
app = App("logged", modules=[logs], store=f"sqlite:///{HERE / 'store.db'}", jobs=[Maker])


@app.handler("dies", queue="q", attempts=2)
async def dies(job: Job[None], makers: Pool[Maker]) -> None:
    await makers.make()
    if not (HERE / "died").exists() and not (HERE / "alone").exists():
        (HERE / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(app.run(until_idle=True))
"""
MAKERS = """
import logging
from workfleet import process, public

@process("makers", size=1)
class Maker:
    @public
    def make(self) -> None:
        logging.getLogger("shop").info("in a child", extra={"password": "open"})
        logging.getLogger("shop").warning("kept")
        logging.getLogger("other").warning("no error")
"""


@pytest.mark.full
def test_what_the_code_gives_holds_for_supervisor_workers_and_children(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(IN_CODE)
    (tmp_path / "makers.py").write_text(MAKERS)
    enqueued(tmp_path, "dies")
    running = start(tmp_path, "--until-idle", program=tmp_path / "app.py", heartbeat_enabled="false")
    assert running.wait() == 0, running.log()
    found = lines(tmp_path / "audit.jsonl")
    assert [line["logger"] for line in found if line.get("event") == "worker.died"] == ["workfleet.worker"]
    in_child = [line for line in found if line["message"] == "in a child"]
    assert [(line["password"], line["job_id"], line["pool"]) for line in in_child] == [("open", "dies", "makers")] * 2
    # An own level stands in the place of `level`; what `levels` names, all get.
    assert [line for line in found if line["message"] == "no error"] != []
    assert "no error" not in running.log()
    assert "in a child" in running.log()
    # What the killed run said at its very end may be lost.
    assert kept(tmp_path, "dies")[-2:] == ["warning  shop: kept", "warning  other: no error"]


def test_app_run_logs_the_same_of_children_that_cannot_import_it(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(IN_CODE)
    (tmp_path / "makers.py").write_text(MAKERS)
    (tmp_path / "alone").touch()
    enqueued(tmp_path, "dies")
    environ = {**os.environ, "TEST_FOLDER": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "app.py"], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    in_child = [line for line in lines(tmp_path / "audit.jsonl") if line["message"] == "in a child"]
    assert [(line["password"], line["job_id"], line["pool"]) for line in in_child] == [("open", "dies", "makers")]
    assert kept(tmp_path, "dies") == ["warning  shop: kept", "warning  other: no error"]
