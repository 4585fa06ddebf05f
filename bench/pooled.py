"""How a pool's program is run and read, ours and the peers': see `programs/pool_calls.py` for what is called."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace

from .bench import BenchError, Figures, Subject, Trial, each_turn
from .running import clean_environment, run

POOL = "pool"
EXECUTOR = "process-pool-executor"
FIGURES = ("calls_per_s", "p50_ms", "large_ms")


def calls(program: str, share: float = 1.0) -> Subject:
    """The figures of one program, with its part of our calls: a slow pool gets fewer, so that it is not the only one
    that works. Raises BenchError when the program does not print them."""

    def turn(trial: Trial) -> Figures:
        trial = replace(trial, size=max(round(trial.size * share), 1))
        python = sys.executable if trial.home is None else str(trial.home / "bin" / "python")
        environ = clean_environment(BENCH_SIZE=str(trial.size), WORKER_LOG__LEVEL="warning")
        return _read(program, run([python, "-m", f"bench.programs.{program}"], trial.folder, environ))

    return each_turn(turn)


def _read(program: str, said: str) -> Figures:
    try:
        told = json.loads(said)
        return {name: float(told[name]) for name in FIGURES}
    except (ValueError, LookupError, TypeError):
        raise BenchError(f"{program} printed no figures but {said.strip()[-200:]!r}") from None


def ratios(medians: Mapping[str, Figures], ours: str) -> Figures:
    """Our latency and our time for a large argument, divided by each peer's; what `ratio` is for the calls a second."""
    found: dict[str, float] = {}
    divided: Mapping[str, Callable[[str], float]] = {
        "p50_ratio": lambda who: medians[ours]["p50_ms"] / medians[who]["p50_ms"],
        "large_ratio": lambda who: medians[ours]["large_ms"] / medians[who]["large_ms"],
    }
    for name, ratio in divided.items():
        found |= {f"{name}_{who}": ratio(who) for who in medians if who != ours}
    return found
