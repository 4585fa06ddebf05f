"""Whose parent has died becomes the supervisor's child: it is waited for, and ended where it was a pool's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import psutil
import pytest

from tests.supervision.conftest import StartFleet

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere orphans are init's")


async def test_orphans_do_not_stay_as_zombies(start: StartFleet) -> None:
    fleet = start(script="orphans")
    await fleet.ready()
    supervisor = psutil.Process(fleet.process.pid)
    (worker,) = fleet.worker_pids()
    await fleet.until(lambda: len(fleet.lines("pids")) == 4)  # the worker, and three that it left behind
    orphans = set(fleet.lines("pids")) - {worker}
    assert {child.pid for child in supervisor.children()} >= orphans
    for pid in orphans:
        os.kill(pid, signal.SIGKILL)
    await fleet.until(lambda: not orphans & {child.pid for child in supervisor.children()})
    assert not any(psutil.pid_exists(pid) for pid in orphans)


async def test_a_killed_worker_takes_along_what_its_pools_children_have_left_behind(start: StartFleet) -> None:
    somebody_elses = subprocess.Popen(["sleep", "60"])
    fleet = start(scripts=["stray", "work"])
    await fleet.ready()
    (worker,) = fleet.worker_pids()
    assert len(fleet.alive()) == 2
    os.kill(worker, signal.SIGKILL)
    await fleet.until(lambda: len(fleet.worker_pids()) == 2)
    assert fleet.alive() == fleet.worker_pids()[1:]
    assert somebody_elses.poll() is None
    somebody_elses.kill()
    somebody_elses.wait()
