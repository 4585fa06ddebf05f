"""How long `workfleet probe live` takes, beside a bare start of the same interpreter.

An orchestrator runs the probe every few seconds in every container, so it has to cost little more than Python itself.
The probe judges a real worker here: it must say "live".
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from .bench import Bench, Measured, alternate

BARE = "bare-python"
APP = 'from workfleet import App\n\napp = App("bench")\n'
WORKFLEET = str(Path(sys.executable).with_name("workfleet"))
PROBE = [WORKFLEET, "probe", "live"]
START_WITHIN_S = 30.0
STOP_WITHIN_S = 40.0
RUNS = 31


def _clean_environment(folder: Path) -> dict[str, str]:
    """This process's environment without what would configure the worker, and a status file of its own."""
    own = ("WORKER_", "REDIS_", "DB_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return {**kept, "WORKER_STATUS_FILE": str(folder / "status.json")}


@contextmanager
def _worker(folder: Path, environment: dict[str, str]) -> Iterator[None]:
    """A real worker in `folder`, live while the body runs."""
    (folder / "app.py").write_text(APP)
    with (folder / "log").open("wb") as log:
        worker = subprocess.Popen([WORKFLEET, "run", "app.py"], cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        give_up = time.monotonic() + START_WITHIN_S
        while subprocess.run(PROBE, env=environment, check=False, capture_output=True).returncode != 0:
            if worker.poll() is not None or time.monotonic() > give_up:
                raise SystemExit(f"bench startup: the worker did not come up:\n{(folder / 'log').read_text()}")
            time.sleep(0.1)
        yield
    finally:
        worker.terminate()
        try:
            worker.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def _wall_ms(command: list[str], environment: dict[str, str]) -> float:
    """Milliseconds from starting `command` to its end. Raises CalledProcessError if it does not exit 0."""
    begun = time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - begun) * 1000


def measure(peers: Sequence[str]) -> Measured:
    with tempfile.TemporaryDirectory(prefix="workfleet-bench-") as name:
        folder = Path(name)
        environment = _clean_environment(folder)
        commands = {"ours": PROBE, BARE: [sys.executable, "-c", "pass"]}
        subjects = {who: partial(_wall_ms, commands[who], environment) for who in ("ours", *peers)}
        with _worker(folder, environment):
            medians = alternate(subjects, runs=RUNS)
    return Measured(ours=medians.pop("ours"), peers=medians, runs=RUNS)


BENCH = Bench("startup", "`workfleet probe live` of a running worker", "ms", (BARE,), measure)
