"""A real fleet in which a job holds up its worker's loop: who says so, while it lasts, and where."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.running import start, until
from tests.fleet.stored import finished, put, stored

PROGRAM = Path(__file__).parent / "blocking_program.py"


def lines(folder: Path) -> list[dict[str, Any]]:
    """The log, which has nothing but JSON."""
    return [json.loads(line) for line in (folder / "log").read_text().rpartition("\n")[0].splitlines()]


def said(folder: Path, event: str) -> list[dict[str, Any]]:
    return [line for line in lines(folder) if line.get("event") == event]


def runs(folder: Path) -> list[str]:
    """What the status file says that a silent worker runs, which `probe` and `status` pass on."""
    document = json.loads((folder / ".workfleet" / "blocking.status.json").read_text())
    found: list[str] = document["workers"][0]["running"]
    return found


@pytest.mark.full
def test_the_log_and_the_status_name_the_job_that_blocks_a_worker_and_it_goes_on(tmp_path: Path) -> None:
    (tmp_path / "workfleet.yaml").touch()

    async def enqueue() -> None:
        async with stored(tmp_path, "blocking") as store:
            await put(store, "w1", name="mail.wait", queue="q", payload=0.1)
            await put(store, "m1", name="mail.send", queue="q", payload=20.0)

    asyncio.run(enqueue())
    run = start(tmp_path, "--log-format", "json", program=PROGRAM)
    until(lambda: said(tmp_path, "worker.blocked"), "it is told that it is blocked")
    (told,) = said(tmp_path, "worker.blocked")
    assert (told["level"], told["index"], told["pid"]) == ("warning", 0, run.workers()[0].pid)
    assert "mail.send (m1)" in told["jobs"]
    assert "in send\n" in told["exception"]
    assert "mail.send (m1)" in told["message"]
    until(lambda: "mail.send (m1)" in runs(tmp_path), "the status file names it")

    async def end() -> None:
        async with stored(tmp_path, "blocking") as store:
            assert (await finished(store, "m1")).attempts_made == 1

    asyncio.run(end())
    until(lambda: said(tmp_path, "worker.went_on"), "it is told that it went on")
    (ended,) = said(tmp_path, "worker.went_on")
    assert ended["blocked_ms"] >= 19_000
    assert len(said(tmp_path, "worker.blocked")) == 1
    run.process.terminate()
    assert run.wait() == 0


@pytest.mark.full
def test_what_is_stuck_is_told_with_its_job_and_all_stacks_in_the_line_itself(tmp_path: Path) -> None:
    async def enqueue() -> None:
        async with stored(tmp_path, "blocking") as store:
            await put(store, "m1", name="mail.send", queue="q", payload=600.0)

    asyncio.run(enqueue())
    run = start(tmp_path, "--log-format", "json", program=PROGRAM, stuck_after="10s")
    until(lambda: said(tmp_path, "worker.stuck"), "it is told that it is stuck")
    (told,) = said(tmp_path, "worker.stuck")
    assert "mail.send (m1)" in told["jobs"]
    assert "in send\n" in told["exception"]
    assert told["exception"].count("(most recent call first)") > 1
    run.end()
    assert lines(tmp_path)
