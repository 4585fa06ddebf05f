"""How long `workfleet probe live` takes, beside a bare start of the same interpreter.

An orchestrator runs the probe every few seconds in every container, so it has to cost little more than Python itself.
The probe judges a real worker here: it must say "live"."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..bench import Bench, BenchError, Figures, Trial, Turn
from ..running import WORKFLEET, clean_environment, our_worker, ours

BARE = "bare-python"


def _wall_ms(command: Sequence[str], environ: dict[str, str]) -> Figures:
    """Milliseconds from starting a command to its end. Raises BenchError if it does not exit 0."""
    begun = time.perf_counter()
    ran = subprocess.run(command, env=environ, check=False, stdin=subprocess.DEVNULL, capture_output=True)
    took_ms = (time.perf_counter() - begun) * 1000
    if ran.returncode != 0:
        raise BenchError(f"{' '.join(command[1:])} ended with {ran.returncode}: {ran.stderr.decode().strip()}")
    return {"wall_ms": took_ms}


@contextmanager
def _probe(trial: Trial) -> Iterator[Turn]:
    environ = ours(trial.folder, 0)
    with our_worker(trial.folder, environ):
        yield lambda: _wall_ms([WORKFLEET, "probe", "live"], environ)


@contextmanager
def _bare(_trial: Trial) -> Iterator[Turn]:
    environ = clean_environment()
    yield lambda: _wall_ms([sys.executable, "-c", "pass"], environ)


BENCH = Bench(
    name="startup",
    about="`workfleet probe live` of a running worker, from its start to its end",
    unit="ms",
    figure="wall_ms",
    better="lower",
    ours=_probe,
    size=1,
    size_is="worker",
    runs=31,
    warmups=1,
    baselines={BARE: _bare},
)
