"""How late many schedules are fired, and how long it takes to load very many: real stores, real processes."""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

from .bench import BenchError, Figures
from .running import our_worker, ours, peak_mb, run, worker_of

LATENESS_OF = 10_000
"""Schedules of which the lateness is measured."""
WATCHED_S = 30.0
LOADED = 100_000
"""Schedules that are loaded."""
_SETTLED_S = 5.0
"""What a start has to catch up with is not counted."""


def lateness(folder: Path) -> Figures:
    """From each slot to the start of its handler, in one worker on SQLite: the median, the 99th percentile, and how
    many a second there were. Raises BenchError."""
    environ = ours(folder, LATENESS_OF)
    _filled(folder, environ)
    place = folder / "began"
    with our_worker(folder, environ, app="scheduled"):
        time.sleep(_SETTLED_S)
        before = len(place.read_text().splitlines())
        time.sleep(WATCHED_S)
        late = sorted(float(line) for line in place.read_text().splitlines()[before:])
    if len(late) < 2:
        raise BenchError(f"{len(late)} slots in {WATCHED_S:.0f} s are too few")
    return {
        "lateness_p50_ms": statistics.median(late),
        "lateness_p99_ms": statistics.quantiles(late, n=100, method="inclusive")[98],
        "slots_per_s": len(late) / WATCHED_S,
    }


def load(folder: Path) -> Figures:
    """How long a process takes to bring all schedules into a new store until its scheduler waits for the next slot, and
    how much memory it had at most; then, until a worker is ready on that store, and its memory. Raises BenchError."""
    environ = ours(folder, LOADED)
    told = _filled(folder, environ)
    begun = time.perf_counter()
    with our_worker(folder, environ, app="scheduled") as program:
        ready_s = time.perf_counter() - begun
        ready_mb = peak_mb(worker_of(program))
    return {
        "load_s": told["seconds"],
        "load_cpu_s": told["cpu_s"],
        "load_mb": told["peak_mb"],
        "ready_s": ready_s,
        "ready_mb": ready_mb,
    }


def _filled(folder: Path, environ: dict[str, str]) -> dict[str, float]:
    said = run([sys.executable, "-m", "bench.programs.scheduled_fill"], folder, environ)
    try:
        return {name: float(value) for name, value in json.loads(said).items()}
    except (ValueError, AttributeError, TypeError):
        raise BenchError(f"scheduled_fill printed no figures but {said.strip()[-200:]!r}") from None
