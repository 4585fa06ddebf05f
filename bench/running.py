"""Programs that a bench starts: to their end, or as long as a body runs; and what can be seen of them from outside."""

from __future__ import annotations

import os
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from .bench import BenchError, Figures
from .environments import ROOT

WORKFLEET = str(Path(sys.executable).with_name("workfleet"))
_OWN = ("WORKER_", "WORKFLEET_", "REDIS_", "DB_", "BENCH_")
_START_WITHIN_S = 90.0
_STOP_WITHIN_S = 40.0
_RUN_WITHIN_S = 900.0
_POLL_S = 0.02
_SHOWN = 600


def clean_environment(**extra: str) -> dict[str, str]:
    """This process's environment without what would configure a worker, with the bench's programs on the path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OWN)}
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**kept, "PYTHONPATH": path, **extra}


def ours(folder: Path, size: int, store: str | None = None, **extra: str) -> dict[str, str]:
    """The environment of our application in a folder: its status file is there, and its store unless given by URL."""
    return clean_environment(
        BENCH_FOLDER=str(folder),
        BENCH_SIZE=str(size),
        WORKER_STORE=store or f"sqlite:///{folder / 'store.db'}",
        WORKER_STATUS_FILE=str(folder / "status.json"),
        **extra,
    )


def run(command: Sequence[str], folder: Path, environ: Mapping[str, str]) -> str:
    """Run a program to its end; its standard output. Raises BenchError with what it said last when it fails."""
    try:
        ran = subprocess.run(
            command,
            cwd=folder,
            env=dict(environ),
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=_RUN_WITHIN_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BenchError(f"{_name(command)}: {error}") from None
    if ran.returncode != 0:
        raise BenchError(f"{_name(command)} ended with {ran.returncode}: {_end_of(ran.stderr)}")
    return ran.stdout


@contextmanager
def started(command: Sequence[str], folder: Path, environ: Mapping[str, str]) -> Iterator[Program]:
    """A program that runs while the body does. It is asked to end (SIGTERM), then made to; nothing of it stays."""
    with (folder / "log").open("ab") as log:
        try:
            process = subprocess.Popen(
                command, cwd=folder, env=dict(environ), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        except OSError as error:
            raise BenchError(f"{_name(command)}: {error}") from None
    program = Program(_name(command), process, folder)
    try:
        yield program
    finally:
        family = program.family()
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_WITHIN_S)
        for each in family:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        process.wait()


class Program:
    """A running program."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], folder: Path) -> None:
        self._name, self._process, self._folder = name, process, folder

    def family(self) -> list[psutil.Process]:
        """The process and everything below it; the process is the first."""
        with suppress(psutil.NoSuchProcess):
            root = psutil.Process(self._process.pid)
            return [root, *root.children(recursive=True)]
        return []

    def wait_for(
        self, what: Callable[[], bool], named: str, within_s: float = _RUN_WITHIN_S, poll_s: float = _POLL_S
    ) -> None:
        """Until it is so. Raises BenchError when the program ends before, or the time is over."""
        give_up = time.monotonic() + within_s
        while not what():
            ended = self._process.poll()
            if ended is not None:
                raise BenchError(f"{self._name} ended with {ended}: {_end_of(self.log())}")
            if time.monotonic() > give_up:
                raise BenchError(f"{self._name}: {named} did not come within {within_s:.0f} s. {_end_of(self.log())}")
            time.sleep(poll_s)

    def wait_for_file(self, name: str) -> float:
        """Until a file of the folder has been written; the number in it."""
        place = self._folder / name
        # It is there, and empty, a moment before its one line is.
        self.wait_for(lambda: place.exists() and place.read_text() != "", f"the file {name!r}")
        return float(place.read_text())

    def log(self) -> str:
        return (self._folder / "log").read_text(errors="replace")


@contextmanager
def our_worker(
    folder: Path, environ: Mapping[str, str], *, wait: bool = True, app: str = "ours", log_level: str | None = "warning"
) -> Iterator[Program]:
    """`workfleet run` with one worker process, ready when the body begins unless told not to wait. Log level None: as
    the environment says, else as shipped."""
    command = [WORKFLEET, "run", f"bench.programs.{app}:app", "--processes", "1"]
    if log_level is not None:
        command += ["--log-level", log_level]
    with started(command, folder, environ) as program:
        if wait:
            program.wait_for(lambda: _is_ready(environ), "readiness", _START_WITHIN_S)
        yield program


def worker_of(program: Program) -> psutil.Process:
    """The worker process below a supervisor. Raises BenchError when it is gone."""
    for process in program.family()[1:]:
        with suppress(psutil.NoSuchProcess):
            if "workfleet.app.worker" in " ".join(process.cmdline()):
                return process
    raise BenchError("the worker process is gone")


def cpu_s(processes: Sequence[psutil.Process]) -> float:
    """Processor time that these have used so far. Raises BenchError when one is gone."""
    try:
        return sum(times.user + times.system for times in (process.cpu_times() for process in processes))
    except psutil.NoSuchProcess as error:
        raise BenchError(f"process {error.pid} ended while it was measured") from None


def rss_mb(process: psutil.Process) -> float:
    """Resident memory, in MiB."""
    return float(process.memory_info().rss) / 2**20


def peak_mb(process: psutil.Process) -> float:
    """The most memory that was ever resident, in MiB."""
    said = Path(f"/proc/{process.pid}/status").read_text()
    return int(said.partition("VmHWM:")[2].split()[0]) / 1024


def latencies(place: Path) -> Figures:
    """The median and the 99th percentile of the nanoseconds in a file, a line each."""
    values = sorted(int(line) / 1e6 for line in place.read_text().splitlines())
    if len(values) < 2:
        raise BenchError(f"{len(values)} latencies are too few: give a larger --size")
    return {"p50_ms": statistics.median(values), "p99_ms": statistics.quantiles(values, n=100, method="inclusive")[98]}


def tally(place: Path) -> int:
    """What a `Tally` has counted so far."""
    return int(struct.unpack("<Q", place.read_bytes())[0]) if place.exists() else 0


def number(said: str, who: str) -> float:
    """The number that a program printed. Raises BenchError for anything else."""
    try:
        return float(said.strip().splitlines()[-1])
    except (ValueError, IndexError):
        raise BenchError(f"{who} printed no number but {said.strip()[-_SHOWN:]!r}") from None


def _is_ready(environ: Mapping[str, str]) -> bool:
    probe = [WORKFLEET, "probe", "ready"]
    return subprocess.run(probe, env=dict(environ), check=False, capture_output=True).returncode == 0


def _name(command: Sequence[str]) -> str:
    return " ".join([Path(command[0]).name, *command[1:4]])


def _end_of(text: str) -> str:
    """The last line that says something, in full as far as it fits."""
    said = [line.strip() for line in text.splitlines() if line.strip()]
    return said[-1][-_SHOWN:] if said else "it said nothing"
