"""A real `workfleet run` in a folder of its own, and what a test can see and do of its processes."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

PROGRAM = Path(__file__).parent / "program.py"
TIMEOUT_S = 90


@dataclass
class Running:
    """One `workfleet run`, with everything that it starts."""

    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def supervisor(self) -> psutil.Process:
        return psutil.Process(self.process.pid)

    def workers(self) -> list[psutil.Process]:
        return [child for child in self.supervisor.children() if _is_worker(child)]

    def family(self) -> list[psutil.Process]:
        return [self.supervisor, *self.supervisor.children(recursive=True)]

    def wait(self) -> int:
        return self.process.wait(timeout=TIMEOUT_S)

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def end(self) -> None:
        """Leave nothing of a run behind whose test failed half-way."""
        if self.process.poll() is None:
            for process in self.family():
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        self.process.wait(TIMEOUT_S)


STARTED: list[Running] = []
"""The runs of the current test; a fixture ends them."""


def _is_worker(process: psutil.Process) -> bool:
    try:
        return "workfleet.app.worker" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:  # a zombie, too
        return False


def start(
    folder: Path,
    *options: str,
    program: Path = PROGRAM,
    own_group: bool = False,
    stderr: int | None = None,
    **settings: str,
) -> Running:
    """Start a run. Its output goes to `log` in the folder, or to `stderr`; `settings` are `WORKER_…` variables."""
    folder.mkdir(exist_ok=True)
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("WORKER_", "REDIS_", "DB_"))}
    environ["TEST_FOLDER"] = str(folder)
    environ.update({f"WORKER_{name.upper()}": value for name, value in settings.items()})
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "workfleet", "run", str(program), "--log-format", "console", *options],
            cwd=folder,
            env=environ,
            stdout=log,
            stderr=log if stderr is None else stderr,
            stdin=subprocess.DEVNULL,
            start_new_session=own_group,
        )
    STARTED.append(Running(folder, process))
    return STARTED[-1]


def until(what: Callable[[], object], name: str, timeout_s: float = TIMEOUT_S) -> None:
    """Wait for an event. Fails with its name when it does not come."""
    deadline = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < deadline, f"waited in vain: {name}"
        time.sleep(0.02)


def rows(folder: Path, sql: str) -> list[tuple[int, ...]]:
    """Rows of the application's own database; none while it has no tables."""
    if not (folder / "app.db").exists():
        return []
    with closing(sqlite3.connect(folder / "app.db", timeout=30)) as db:
        try:
            return db.execute(sql).fetchall()
        except sqlite3.OperationalError:
            return []


def done(folder: Path) -> list[int]:
    return [number for (number,) in rows(folder, "select number from done order by number")]


def kill(process: psutil.Process) -> None:
    process.send_signal(signal.SIGKILL)


def gone(processes: list[psutil.Process]) -> bool:
    return all(not process.is_running() or process.status() == psutil.STATUS_ZOMBIE for process in processes)
