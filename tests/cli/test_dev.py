"""`dev`: restarts on changes, waits after errors, and leaves nothing behind."""

from __future__ import annotations

import os
import signal

import psutil

from .conftest import Project
from .running import running

READY = '"event":"worker.ready"'


def test_it_restarts_on_a_change_waits_after_an_error_and_ends_with_ctrl_c(project: Project) -> None:
    source = (project.folder / "app.py").read_text()
    with running(project, "dev") as dev:
        seen = dev.wait_for(READY)
        assert f"workfleet dev: watching {project.folder}\n" in dev.lines
        assert any('"level":"debug"' in line for line in dev.lines)
        project.write("app.py", source.replace('"greetings"', '"hellos"'))
        seen = dev.wait_for("workfleet dev: app.py changed, starting again\n", after=seen)
        seen = dev.wait_for("ready, listening to hellos, shop-schedules", after=seen)
        project.write(".env", "WORKER_CONCURRENCY=0\n")
        seen = dev.wait_for("WORKER_CONCURRENCY = 0 (from .env:1)", after=seen)
        seen = dev.wait_for("workfleet dev: waiting for a change\n", after=seen)
        project.write(".env", "WORKER_CONCURRENCY=3\n")
        dev.wait_for(READY, after=seen)
        family = dev.family()
        assert len(family) == 3
        os.kill(dev.process.pid, signal.SIGINT)
        assert dev.end() == (0, "")
        assert psutil.wait_procs(family[1:], 5)[1] == []


def test_nothing_is_left_when_it_is_killed(project: Project) -> None:
    with running(project, "dev") as dev:
        dev.wait_for(READY)
        family = dev.family()
        dev.process.kill()
        dev.process.wait(30)
        assert psutil.wait_procs(family[1:], 15)[1] == []


def test_without_an_application_it_does_not_wait(bare: Project) -> None:
    code, out, err = bare("dev")
    assert (code, out) == (2, "")
    assert "which application?" in err
