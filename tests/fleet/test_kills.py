"""`kill -9` of each kind of process, half-way: nothing lost, nothing done twice, nothing left running."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import psutil

from tests.fleet.program_facts import JOBS
from tests.fleet.running import Running, done, gone, kill, rows, start, until


def half_way(run: Running) -> None:
    until(lambda: len(done(run.folder)) >= JOBS // 4, "a quarter of the jobs is done")
    assert len(done(run.folder)) < JOBS, "the jobs were faster than the test"


def everything_is_done(folder: Path) -> None:
    assert done(folder) == list(range(JOBS))


def runs_after_the_end(folder: Path) -> list[tuple[int, ...]]:
    """Jobs that began again after the run that ended was settled would show as a second begin and a second end."""
    return rows(folder, "select number from runs where what = 'end' group by number having count(*) > 1")


def test_the_supervisor_is_killed(tmp_path: Path) -> None:
    run = start(tmp_path, "--until-idle")
    half_way(run)
    family = run.family()
    kill(run.supervisor)
    run.process.wait(timeout=10)
    until(lambda: gone(family), "workers and children end with their supervisor", 5)

    settled = set(done(tmp_path))
    started = time.monotonic()
    again = start(tmp_path, "--until-idle")
    assert again.wait() == 0
    assert time.monotonic() - started < 25, "it waited for a lease (30 s)"
    everything_is_done(tmp_path)
    # Only what ran at the kill may have run again: four at a time at the most, never what was settled long before.
    assert len(runs_after_the_end(tmp_path)) <= 10
    assert len(settled) >= JOBS // 4


def test_a_worker_is_killed(tmp_path: Path) -> None:
    run = start(tmp_path, "--until-idle")
    half_way(run)
    (worker,) = run.workers()
    kill(worker)
    assert run.wait() == 0
    everything_is_done(tmp_path)
    assert "SIGKILL" in run.log()
    assert "1 crash," in run.log()


def test_a_pool_child_is_killed(tmp_path: Path) -> None:
    run = start(tmp_path, "--until-idle")
    half_way(run)
    pids = [int(path.name.removeprefix("child-")) for path in tmp_path.glob("child-*")]
    kill(psutil.Process(pids[0]))
    assert run.wait() == 0
    everything_is_done(tmp_path)
    assert len(list(tmp_path.glob("child-*"))) > 2 or len(pids) < 2, "the child was replaced"


def test_a_second_run_finds_nothing_to_do(tmp_path: Path) -> None:
    assert start(tmp_path, "--until-idle").wait() == 0
    before = rows(tmp_path, "select count(*) from runs")
    assert start(tmp_path, "--until-idle").wait() == 0
    assert rows(tmp_path, "select count(*) from runs") == before == [(2 * JOBS,)]


def test_sigterm_lets_jobs_end_and_the_next_run_goes_on(tmp_path: Path) -> None:
    run = start(tmp_path, "--shutdown-timeout", "10s")
    half_way(run)
    family = run.family()
    run.process.send_signal(signal.SIGTERM)
    assert run.wait() == 0
    until(lambda: gone(family), "all processes are gone", 5)
    assert start(tmp_path, "--until-idle").wait() == 0
    everything_is_done(tmp_path)


def test_two_workers_share_the_work(tmp_path: Path) -> None:
    run = start(tmp_path, "--until-idle", "--processes", "2")
    assert run.wait() == 0
    everything_is_done(tmp_path)
    assert len(rows(tmp_path, "select distinct pid from runs")) == 2
    assert runs_after_the_end(tmp_path) == []
