"""What jobs can do to the process that runs them, in a real fleet: each costs its own job, no other."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import psutil
import pytest

from tests.fleet.program_facts import JOBS
from tests.fleet.running import Running, done, gone, rows, start, until
from tests.fleet.stored import finished, put, stored
from workfleet.model.jobs import JobState

HARD = Path(__file__).parent / "hard.py"
FAST = {"poll": "200ms"}


def notes(folder: Path) -> Counter[str]:
    path = folder / "notes"
    return Counter(line.split()[0] for line in path.read_text().splitlines()) if path.exists() else Counter()


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGSEGV, marks=pytest.mark.full)])
async def test_a_job_that_kills_its_worker_each_time_fails_with_the_reason(
    tmp_path: Path, number: signal.Signals
) -> None:
    async with stored(tmp_path) as store:
        await put(store, "bad", name="killer", queue="killers", payload=int(number))
        run = start(tmp_path, "--until-idle", program=HARD, **FAST)
        assert run.wait() == 0
        record = await finished(store, "bad")
    assert (record.state, record.crashes, record.attempts_made) == (JobState.FAILED, 3, 0)
    assert record.failure is not None
    assert record.failure.code == "crashed"
    assert f"was killed by {number.name}" in record.failure.message
    assert [attempt.outcome for attempt in record.history] == ["crashed"] * 3
    assert notes(tmp_path) == {"killer": 3}
    assert "3 crashes" in run.log()


async def test_a_job_that_holds_the_interpreter_lock_for_twice_its_lease_runs_once(tmp_path: Path) -> None:
    async with stored(tmp_path) as store:
        await put(store, "holds", name="holder", queue="holders", payload=3)
        run = start(tmp_path, "--until-idle", "--processes", "2", program=HARD, lease="1s", **FAST)
        assert run.wait() == 0
        record = await finished(store, "holds")
    assert (record.state, record.crashes, record.result) == (JobState.COMPLETED, 0, b'"held"')
    assert notes(tmp_path) == {"holder": 1}
    assert record.finished_ms is not None
    assert record.started_ms is not None
    assert record.finished_ms - record.started_ms >= 2_000, "it held the lock for less than two leases"


async def test_a_stuck_worker_is_dumped_killed_and_replaced(tmp_path: Path) -> None:
    async with stored(tmp_path) as store:
        await put(store, "sticks", name="sticker", queue="stickers")
        run = start(tmp_path, "--until-idle", program=HARD, stuck_after="10s", **FAST)
        assert run.wait() == 0
        record = await finished(store, "sticks")
    assert (record.state, record.crashes, record.result) == (JobState.COMPLETED, 1, b'"moved on"')
    assert record.history[0].failure is not None
    assert "was stuck (its event loop has made no progress for 10 s)" in record.history[0].failure.message
    log = run.log()
    assert "most recent call first" in log
    assert 'hard.py", line' in log
    assert "in sticker" in log


async def test_a_child_that_runs_out_of_memory_fails_its_job_alone(tmp_path: Path) -> None:
    async with stored(tmp_path) as store:
        await put(store, "much", name="hungry", queue="hungry", payload=600)
        run = start(tmp_path, program=HARD, **FAST)
        much = await finished(store, "much")
        (worker,) = run.workers()
        await put(store, "little", name="hungry", queue="hungry", payload=1)
        little = await finished(store, "little")
        assert run.workers() == [worker]
        run.process.send_signal(signal.SIGTERM)
        assert run.wait() == 0
    assert (much.state, much.crashes) == (JobState.FAILED, 0)
    assert much.failure is not None
    assert much.failure.code == "memory_limit"
    assert (little.state, little.result) == (JobState.COMPLETED, b"1000000")


@pytest.mark.parametrize("name", ["forks", "forks-in-thread"])
async def test_a_job_that_forks_and_returns_in_both_processes_ends_once(tmp_path: Path, name: str) -> None:
    async with stored(tmp_path) as store:
        await put(store, "forks", name=name, queue="forks")
        run = start(tmp_path, "--until-idle", program=HARD, **FAST)
        assert run.wait() == 0
        record = await finished(store, "forks")
    assert (record.state, record.crashes, record.result) == (JobState.COMPLETED, 0, b'"parent"')
    assert notes(tmp_path) == {"parent": 1, "child": 1}
    assert run.log().count("a job has forked this process") == 1
    child = next(int(line.split()[1]) for line in (tmp_path / "notes").read_text().splitlines() if "child" in line)
    assert not psutil.pid_exists(child)


def test_sigterm_to_the_whole_group_is_a_graceful_stop(tmp_path: Path) -> None:
    """As a service manager sends it, or a terminal: to the supervisor, its workers and their children."""
    run = start(tmp_path, "--shutdown-timeout", "10s", own_group=True)
    until(lambda: len(done(tmp_path)) >= JOBS // 4, "a quarter of the jobs is done")
    family = run.family()
    for each in family:
        each.send_signal(signal.SIGTERM)
    assert run.wait() == 0
    until(lambda: gone(family), "all processes are gone", 5)
    _no_crash(run)
    assert start(tmp_path, "--until-idle").wait() == 0
    assert done(tmp_path) == list(range(JOBS))
    again = rows(tmp_path, "select number from runs where what = 'end' group by number having count(*) > 1")
    assert again == []


def _no_crash(run: Running) -> None:
    log = run.log()
    assert "died" not in log
    assert "crash" not in log.replace("0 crashes", "")
    assert os.path.exists(run.folder / "store.db")
