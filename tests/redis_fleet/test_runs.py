"""`workfleet run` on a real server: from end to end, and through kills of a worker, the supervisor, the server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.running import Running, gone, kill, start, until
from tests.stores.redis.servers import Server

PROGRAM = Path(__file__).with_name("program.py")
JOBS = 30


def run(folder: Path, server: Server, *options: str, **settings: str) -> Running:
    return start(
        folder, *options, program=PROGRAM, own_group=False,
        store=server.url, concurrency="3", lease="3s", poll="1s", **settings,
    )  # fmt: skip


def ended(folder: Path) -> int:
    return len(list(folder.glob("end-*")))


def command(folder: Path, server: Server, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command of its own process, as an operator gives it."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("WORKER_", "REDIS_", "DB_"))}
    environ |= {"WORKER_STORE": server.url, "TEST_FOLDER": str(folder), "WORKER_APP": str(PROGRAM)}
    line = [sys.executable, "-m", "workfleet", *arguments]
    return subprocess.run(line, cwd=folder, env=environ, capture_output=True, text=True, timeout=90, check=False)


def documents(folder: Path, server: Server, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in command(folder, server, *arguments, "--json").stdout.splitlines()]


def counts(folder: Path, server: Server) -> dict[str, Any]:
    (found,) = [each for each in documents(folder, server, "queues", "ls") if each["queue"] == "work"]
    return found


@pytest.mark.full
def test_every_job_once_from_end_to_end_and_what_commands_see(own_server: Server, tmp_path: Path) -> None:
    own_server.start()
    running = run(tmp_path, own_server, "--until-idle", "--processes", "2", queue_prefix="bull")
    until(lambda: ended(tmp_path) > 3, "jobs end")
    assert running.wait() == 0
    assert ended(tmp_path) == JOBS
    # Under the prefix that was said, as BullMQ has it.
    assert own_server.ask("ZCARD", "bull:work:completed") == JOBS
    assert own_server.ask("LLEN", "bull:work:active") == 0


@pytest.mark.full
@pytest.mark.parametrize("whom", ["worker", "supervisor"])
def test_a_kill_loses_no_job(whom: str, own_server: Server, tmp_path: Path) -> None:
    own_server.start()
    running = run(tmp_path, own_server)
    until(lambda: ended(tmp_path) >= 4, "jobs end")
    if whom == "worker":
        kill(running.workers()[0])
    else:
        family = running.family()
        kill(running.supervisor)
        running.wait()
        until(lambda: gone(family), "workers end with their supervisor")
        running = run(tmp_path, own_server)
    until(lambda: ended(tmp_path) == JOBS, "every job ends")
    until(lambda: counts(tmp_path, own_server)["completed"] == JOBS, "every job is settled")
    running.process.terminate()
    assert running.wait() == 0


@pytest.mark.full
def test_a_server_that_is_killed_and_comes_back_is_worked_on(own_server: Server, tmp_path: Path) -> None:
    own_server.start()
    running = run(tmp_path, own_server)
    for least in (3, 9, 15):
        until(lambda least=least: ended(tmp_path) >= least, "jobs end")  # type: ignore[misc]
        own_server.stop()
        own_server.start()
    until(lambda: ended(tmp_path) == JOBS, "every job ends")
    until(lambda: counts(tmp_path, own_server)["completed"] == JOBS, "every job is settled")
    assert len(running.workers()) == 1
    running.process.terminate()
    assert running.wait() == 0


@pytest.mark.full
def test_a_server_that_is_down_at_the_start_is_waited_for(own_server: Server, tmp_path: Path) -> None:
    running = run(tmp_path, own_server)
    until(lambda: "opening the store" in running.log(), "the worker tells what it waits for")
    assert command(tmp_path, own_server, "queues", "ls").returncode == 3
    assert command(tmp_path, own_server, "doctor").returncode == 3
    live, ready = (command(tmp_path, own_server, "probe", kind).returncode for kind in ("live", "ready"))
    assert (live, ready) == (0, 1)
    # Who waits for the end of a run is told at once.
    other = command(tmp_path, own_server, "run", "--until-idle")
    assert (other.returncode, "Connection refused" in other.stderr) == (3, True)
    own_server.start()
    until(lambda: ended(tmp_path) == JOBS, "every job ends")
    running.process.terminate()
    assert running.wait() == 0


@pytest.mark.full
def test_a_server_that_refuses_to_write_at_the_start_is_waited_for(own_server: Server, tmp_path: Path) -> None:
    own_server.start()
    own_server.ask("CONFIG", "SET", "maxmemory", 1)
    running = run(tmp_path, own_server)
    until(lambda: "out of memory" in running.log(), "the worker tells what it waits for")
    (worker,) = running.workers()
    assert "opening the store: store" in running.log()
    assert command(tmp_path, own_server, "probe", "live").returncode == 0
    own_server.ask("CONFIG", "SET", "maxmemory", 0)
    until(lambda: ended(tmp_path) == JOBS, "every job ends")
    assert running.workers() == [worker]
    running.process.terminate()
    assert running.wait() == 0


@pytest.mark.full
def test_a_stop_does_not_wait_for_a_server_that_is_down(own_server: Server, tmp_path: Path) -> None:
    running = run(tmp_path, own_server, shutdown_timeout="60s")
    until(lambda: "opening the store" in running.log(), "the worker tells what it waits for")
    began = time.monotonic()
    running.process.terminate()
    running.wait()
    assert time.monotonic() - began < 30


@pytest.mark.full
def test_doctor_and_queues_say_what_there_is(own_server: Server, tmp_path: Path) -> None:
    own_server.start()
    running = run(tmp_path, own_server)
    until(lambda: ended(tmp_path) >= 1, "jobs end")
    found = counts(tmp_path, own_server)
    assert len(found["workers"]) == 1
    assert found["others"] == []
    own_server.ask("HSET", "killed:work:meta", "version", "bullmq:5.81.3")
    looked = command(tmp_path, own_server, "doctor")
    assert looked.returncode == 0, looked.stdout
    assert "append-only file, what was acknowledged is on the disk" in looked.stdout
    assert "maxmemory-policy noeviction" in looked.stdout
    assert "BullMQ 5" in looked.stdout
    assert "workers: 1 work" in looked.stdout
    levels = {each["check"]: each["level"] for each in documents(tmp_path, own_server, "doctor")}
    assert {levels[name] for name in ("version", "memory", "persistence", "writable", "replication")} == {"ok"}
    assert levels["BullMQ 5"] == "warning"
    own_server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    evicting = command(tmp_path, own_server, "doctor")
    assert evicting.returncode == 3
    assert "maxmemory-policy allkeys-lru" in evicting.stdout
    running.end()
