"""A real supervisor and real processes: starting, working, stopping, and the exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.supervision.fleet import ScriptedFleet, settle_down

StartFleet = Callable[..., ScriptedFleet]


async def test_sigterm_drains_every_worker_and_exits_0(start: StartFleet) -> None:
    fleet = start(script="work", options={"processes": 2})
    await fleet.ready(2)
    fleet.signal(signal.SIGTERM)
    assert await fleet.exit_code() == 0
    assert [kind for kind, _ in fleet.lines("heard")] == ["Drain", "Drain"]
    assert fleet.summary == {
        "completed": 10,
        "failed": 2,
        "given_back": 0,
        "crashes": 0,
        "refused": [],
        "problems": [],
        "reason": "stopped by SIGTERM",
    }
    assert (fleet.journal("open"), fleet.journal("close")) == ([["test", False]], [None])
    assert fleet.journal("settle") == []
    assert fleet.alive() == []
    status = fleet.status()
    assert status is not None
    assert (status.state, status.ever_ready, status.reason) == ("stopped", True, "stopped by SIGTERM")
    assert [worker.state for worker in status.workers] == ["stopped", "stopped"]


async def test_a_store_may_take_what_is_left_of_the_budget_to_close(start: StartFleet) -> None:
    """It writes back what it kept beside its file, on a disk that may be busy: that is no service that refuses."""
    fleet = start(script="work")
    await fleet.ready()
    (fleet.folder / "slow-close").touch()
    fleet.signal(signal.SIGTERM)
    assert await fleet.exit_code(seconds=60) == 0
    assert fleet.summary["refused"] == []
    assert fleet.journal("close") == [None]


async def test_a_second_signal_waits_for_no_store_that_closes(start: StartFleet) -> None:
    fleet = start(script="work", options={"shutdown_timeout_ms": 600_000})
    await fleet.ready()
    (fleet.folder / "never-closes").touch()
    fleet.signal(signal.SIGTERM)
    await fleet.until(lambda: fleet.journal("closing"))
    fleet.signal(signal.SIGTERM)
    assert await fleet.exit_code(seconds=60) == 130
    assert fleet.journal("close") == []


async def test_a_signal_to_everything_is_left_to_the_supervisor(start: StartFleet) -> None:
    """As a terminal, a service manager or `kill -- -group` sends it."""
    fleet = start(script="work")
    await fleet.ready()
    (worker,) = fleet.worker_pids()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(worker, number)
    await settle_down()
    assert fleet.alive() == [worker]
    os.killpg(fleet.process.pid, signal.SIGTERM)
    os.kill(worker, signal.SIGTERM)
    assert await fleet.exit_code() == 0
    assert fleet.events("worker.died") == []


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_kills_at_once_and_gives_the_jobs_back(start: StartFleet, second: signal.Signals) -> None:
    fleet = start(script="deaf")
    await fleet.ready()
    fleet.signal(signal.SIGTERM)
    await fleet.until(lambda: fleet.lines("heard"))
    fleet.signal(second)
    assert await fleet.exit_code(seconds=4) == 130
    assert fleet.alive() == []
    assert fleet.journal("settle") == [["job-0-0", "given_back", None]]
    assert fleet.summary["reason"] == "stopped at once by a second signal"


async def test_a_hangup_stops_but_never_is_the_second_signal(start: StartFleet) -> None:
    fleet = start(script="deaf", options={"shutdown_timeout_ms": 1_000})
    await fleet.ready()
    fleet.signal(signal.SIGTERM)
    fleet.signal(signal.SIGHUP)
    assert await fleet.exit_code() == 1
    fleet = start(script="work")
    await fleet.ready()
    fleet.signal(signal.SIGHUP)
    assert await fleet.exit_code() == 0
    assert fleet.summary["reason"] == "stopped by SIGHUP"


async def test_a_worker_that_does_not_stop_in_time_is_killed_and_its_jobs_given_back(start: StartFleet) -> None:
    fleet = start(script="deaf", options={"shutdown_timeout_ms": 1_000})
    await fleet.ready()
    fleet.signal(signal.SIGTERM)
    assert await fleet.exit_code(seconds=6) == 1
    assert fleet.summary["refused"] == ["worker 0 did not stop in time"]
    assert fleet.journal("settle") == [["job-0-0", "given_back", None]]
    assert fleet.summary["crashes"] == 0
    assert fleet.alive() == []


async def test_what_a_worker_could_not_end_is_given_back_after_its_process_is_gone(start: StartFleet) -> None:
    fleet = start(script="leave-work")
    await fleet.ready()
    fleet.signal(signal.SIGINT)
    assert await fleet.exit_code() == 1
    assert fleet.summary["refused"] == ["exchange"]
    assert fleet.journal("settle") == [["job-0-0", "given_back", None]]


async def test_a_worker_that_starts_slowly_is_not_waited_for(start: StartFleet) -> None:
    fleet = start(script="slow-start")
    await fleet.until(fleet.worker_pids)
    fleet.signal(signal.SIGTERM)
    assert await fleet.exit_code(seconds=4) == 0
    assert fleet.alive() == []
    assert fleet.journal("open") == []


async def test_idle_workers_end_the_run_with_a_sum_of_what_they_did(start: StartFleet) -> None:
    fleet = start(script="idle", options={"processes": 3, "until_idle": True})
    assert await fleet.exit_code() == 0
    assert (fleet.summary["completed"], fleet.summary["failed"], fleet.summary["reason"]) == (12, 6, "")
    assert len(fleet.lines("started")) == 3


async def test_failed_jobs_are_an_exit_code_when_asked_for(start: StartFleet) -> None:
    fleet = start(script="idle", options={"until_idle": True, "fail_on_failed": True})
    assert await fleet.exit_code() == 1


async def test_a_worker_that_ends_by_itself_is_replaced(start: StartFleet) -> None:
    fleet = start(scripts=["idle", "work"])
    await fleet.ready()
    assert fleet.lines("started")[1][:2] == [0, 1]
    assert fleet.events("worker.died") == []
    fleet.signal(signal.SIGTERM)
    assert await fleet.exit_code() == 0
    assert fleet.summary["completed"] == 9


async def test_a_worker_that_does_not_exit_after_its_last_word_is_killed(start: StartFleet) -> None:
    fleet = start(script="linger", options={"until_idle": True})
    assert await fleet.exit_code() == 1
    assert fleet.summary["refused"] == ["worker 0 did not exit after it had ended its work"]
    assert fleet.alive() == []


async def test_wrong_configuration_is_said_once_stops_all_and_exits_78(start: StartFleet) -> None:
    fleet = start(script="refuse", refusal=78, options={"processes": 2})
    assert await fleet.exit_code() == 78
    assert fleet.stderr == "two problems:\n  - a\n  - b\n"
    assert {restarts for _, restarts, _ in fleet.lines("started")} == {0}
    assert fleet.events("service.restarted") == []


async def test_exit_code_78_without_a_word_is_a_refusal_too(start: StartFleet) -> None:
    fleet = start(script="silent-78")
    assert await fleet.exit_code() == 78
    assert len(fleet.lines("started")) == 1


async def test_a_store_that_is_down_at_the_start_ends_the_run_with_3(start: StartFleet) -> None:
    fleet = start(script="refuse", refusal=3)
    assert await fleet.exit_code() == 3
    assert len(fleet.lines("started")) == 1


async def test_a_worker_that_cannot_be_started_is_a_crash_loop(start: StartFleet) -> None:
    fleet = start(script="work", options={"worker_command": ["/nowhere/python"]})
    assert await fleet.exit_code() == 1
    assert "could not be started: [Errno 2] No such file or directory: '/nowhere/python'" in fleet.stderr


@pytest.mark.full
async def test_the_supervisor_reaps_orphans_and_leaves_its_descriptors_flat(start: StartFleet) -> None:
    fleet = start(scripts=["crash-with-job", "crash-with-job", "crash-with-job", "family"])
    await fleet.until(lambda: len(fleet.worker_pids()) == 4)
    await fleet.ready()
    before = len(os.listdir(f"/proc/{fleet.process.pid}/fd"))
    for _ in range(3):
        killed = fleet.worker_pids()[-1]
        os.kill(killed, signal.SIGKILL)
        await fleet.until(lambda killed=killed: fleet.worker_pids()[-1] != killed)
        await fleet.ready()
    await fleet.until(lambda: len(fleet.alive()) == 3)
    assert len(os.listdir(f"/proc/{fleet.process.pid}/fd")) == before
    children = subprocess.run(
        ["ps", "-o", "stat=", "--ppid", str(fleet.process.pid)], capture_output=True, text=True, check=True
    ).stdout.split()
    assert len(children) == 1
    assert not children[0].startswith("Z")


def test_a_supervisor_imports_little() -> None:
    """It must start at once, stay small, and run no user code."""
    code = "import sys, workfleet.app.supervisor.supervisor as s; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"apsw", "click", "dishka", "opentelemetry", "psutil", "pydantic", "redis", "rich", "structlog", "yaml"}
    assert heavy & set(loaded) == set()
