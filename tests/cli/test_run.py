"""`run`: what it hands to supervisor and workers, its summary and its exit codes, and `status` while it runs."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from workfleet.app.supervisor.options import Summary
from workfleet.cli.summary import write_summary

from .conftest import Project, Ran, make_project, wait_for
from .running import running

SLOW = """
import asyncio
from workfleet import App, Job

app = App("slow")


@app.handler("wait", queue="q")
async def wait(job: Job[float]) -> None:
    await asyncio.sleep(job.data)
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = make_project(tmp_path_factory.mktemp("run"))
    code, out, err = project("run", "--until-idle", "--log-level", "warning")
    assert (code, err) == (0, "")
    assert out.startswith("nothing to do: 0 done, 0 failed, 0 given back, 0 crashes, in ")
    return project


def test_until_idle_waits_for_no_paused_queue_and_says_what_stays(shop: Project) -> None:
    assert shop("enqueue", "greetings", "greet", '{"name": "Ada"}').code == 0
    assert shop("queues", "pause", "greetings").code == 0
    code, _, err = shop("run", "--until-idle")
    told = [json.loads(line) for line in err.splitlines() if "work_left" in line]
    assert code == 0
    assert [(one["message"], one["level"]) for one in told] == [
        ("queue greetings is paused: 1 of its jobs stay behind", "warning")
    ]
    assert shop("queues", "resume", "greetings").code == 0
    assert shop("run", "--until-idle").out.startswith("1 done, 0 failed")


def test_the_summary_counts_and_names_what_failed(shop: Project) -> None:
    for name, payload, job_id in (
        ("greet", '{"name": "Ada"}', "g"),
        ("greet", '{"name": "nobody"}', "n"),
        ("refuse", "null", "r"),
    ):
        assert shop("enqueue", "greetings", name, payload, "--id", job_id).code == 0
    code, out, err = shop("run", "--until-idle", "--fail-on-failed")
    assert code == 1
    assert "worker.ready" in [json.loads(line)["event"] for line in err.splitlines()]
    head, *failed = out.splitlines()
    assert head.startswith("1 done, 2 failed, 0 given back, 0 crashes, in ")
    assert sorted(failed) == [
        "  greetings/greet n: ValueError: nobody\\x1b[31m is there",
        "  greetings/refuse r: not today",
    ]
    # What failed before is not told again.
    assert shop("enqueue", "greetings", "refuse", "--id", "again").code == 0
    code, out, err = shop("run", "--until-idle", "--log-format", "console")
    assert code == 0
    head, *failed = out.splitlines()
    assert head.startswith("0 done, 1 failed, ")
    assert failed == ["  greetings/refuse again: not today"]
    assert " info     ready, listening to " in err


def test_a_job_that_kills_its_worker_is_a_crash_and_failed(shop: Project) -> None:
    assert shop("enqueue", "greetings", "greet", '{"name": "killer"}', "--id", "k").code == 0
    code, out, _ = shop("run", "--until-idle", "--fail-on-failed", WORKER_MAX_CRASHES="1")
    assert code == 1
    head, failed = out.splitlines()
    assert head.startswith("0 done, 1 failed, 0 given back, 1 crash, in ")
    assert failed.startswith("  greetings/greet k: ")
    assert "was killed by SIGKILL" in failed


def test_only_the_named_queues_are_listened_to(shop: Project) -> None:
    assert shop("enqueue", "greetings", "greet", '{"name": "x"}', "--id", "x").code == 0
    assert shop("run", "--until-idle", "--queues", "worker-default").out.startswith("nothing to do")
    code, out, err = shop("run", "--until-idle", "--queues", "greetings,nowhere")
    assert (code, out) == (78, "")
    assert "no handler is on nowhere. Queues with handlers: greetings, worker-default" in err
    (job,) = shop("jobs", "show", "x", "--json").documents
    assert job["state"] == "waiting"


@pytest.mark.parametrize(
    ("arguments", "environ", "code", "told"),
    [
        (("--store", "memory://"), {}, 78, "--store = memory:// (from command line): it lives in one process"),
        ((), {"WORKER_STORE": "memory://"}, 78, "WORKER_STORE = memory:// (from environment): it lives in one process"),
        (("--shutdown-timeout", "5"), {}, 78, "--shutdown-timeout = 5 (from command line): "),
        (("--config", "nowhere.yaml"), {}, 78, "--config = nowhere.yaml (from command line): there is no such file"),
        (("nowhere.py",), {}, 78, "nowhere.py: there is no file "),
        ((), {"REDIS_ENABLED": "true", "WORKER_STORE": "sqlite:///a.db"}, 78, "contradict each other"),
    ],
    ids=str,
)
def test_what_cannot_start(
    arguments: tuple[str, ...], environ: dict[str, str], code: int, told: str, shop: Project
) -> None:
    run = shop.process if arguments == ("nowhere.py",) else shop.inside  # the others are found before anything starts
    ran = run("run", "--until-idle", *arguments, **environ)
    assert (ran.code, ran.out) == (code, "")
    assert told in ran.err
    assert "Traceback" not in ran.err


def test_an_application_that_fails_at_the_start_is_told_with_its_place(bare: Project) -> None:
    bare.write("app.py", "from workfleet import App\n\napp = App('a')\nzzyzx()\n")
    code, out, err = bare("run", "app.py")
    assert (code, out) == (78, "")
    place = f"{bare.folder / 'app.py'}:4: NameError: name 'zzyzx' is not defined"
    assert f"Error: the application cannot start: {place}\n(--debug shows the traceback)\n" in err
    assert "Traceback" not in err
    assert "Traceback (most recent call last):" in bare("run", "app.py", "--debug").err


def test_status_while_it_runs_after_a_stop_and_after_a_kill(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    code, out, err = project("status")
    assert code == 1
    assert "fleet  not running: it was not started here\n" in out
    assert err.endswith("it does not exist yet. Run the application first: workfleet run\n")

    with running(project, "run", "--processes", "2") as run:
        document = wait_for(lambda: both_ready(project("status", "--json")), "2 workers that are ready")
        assert (document["app"], document["running"], document["state"]) == ("shop", True, "ready")
        assert document["supervisor"]["pid"] == run.process.pid
        assert [worker["index"] for worker in document["workers"]] == [0, 1]
        assert document["store"] == f"sqlite://{tmp_path}/.workfleet/shop.db"
        assert (document["schedules"], document["overdue"]) == (2, [])
        out = project("status").out
        assert "ready, since " in out
        assert f"process {run.process.pid} on " in out
        assert [line.split()[2] for line in out.split("\n\n")[1].splitlines()[1:]] == ["ready", "ready"]
        os.kill(run.process.pid, signal.SIGTERM)
        assert run.end() == (0, "")
    code, out, _ = project("status")
    assert code == 1
    assert "not running: it has stopped: stopped by SIGTERM\n" in out

    with running(project, "run") as run:
        wait_for(lambda: project("status").code == 0, "the fleet")
        family = run.family()
        run.process.kill()
        run.process.wait(30)
        assert psutil.wait_procs(family[1:], 10)[1] == []
        code, out, _ = project("status")
        assert code == 1
        assert f"not running: its supervisor (process {run.process.pid}) is gone without a word\n" in out


def both_ready(ran: Ran) -> Any:
    (document,) = ran.documents
    states = [worker["state"] for worker in document["workers"]]
    return document if states == ["ready", "ready"] and document["not_ready"] is None else None


def test_the_first_signal_drains_and_a_second_stops_at_once(bare: Project) -> None:
    bare.write("app.py", SLOW)
    bare.write("workfleet.yaml", "app: app.py\n")
    bare.make_store("slow")
    assert bare("enqueue", "q", "wait", "60", "--id", "long").code == 0
    with running(bare, "run") as run:
        state = lambda: bare("jobs", "show", "long", "--json").documents[0]["state"]  # noqa: E731
        wait_for(lambda: state() == "active", "the claim")
        family = run.family()
        os.kill(run.process.pid, signal.SIGINT)
        run.wait_for("worker.draining")
        os.kill(run.process.pid, signal.SIGINT)
        assert run.end() == (130, "")
        assert psutil.wait_procs(family[1:], 10)[1] == []
    assert bare("enqueue", "q", "wait", "0.1", "--id", "short").code == 0
    with running(bare, "run", "--shutdown-timeout", "1s") as run:
        wait_for(lambda: state() == "active", "the claim")
        os.kill(run.process.pid, signal.SIGTERM)
        assert run.end()[0] == 0
    assert state() == "waiting"


def test_many_failures_are_cut_and_the_way_to_the_rest_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    failed = [(f"q/j {number}", "why") for number in range(22)]
    write_summary(Summary(completed=1, failed=22, given_back=3, crashes=2), failed, 12.34)
    head, *rest = capsys.readouterr().out.splitlines()
    assert head == "1 done, 22 failed, 3 given back, 2 crashes, in 12.3 s"
    assert rest[:20] == [f"  q/j {number}: why" for number in range(20)]
    assert rest[20:] == ["  … and 2 more: workfleet jobs ls --state failed"]
