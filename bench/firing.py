"""How a next-fire program is run and read, ours and the peers': see `programs/firing.py` for what is computed."""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from workfleet.model.cron import Cron

from .bench import BenchError, Figures, Subject, Trial, each_turn
from .environments import Pip
from .peer import Peer
from .programs.firing import PAIRS, START_S
from .running import clean_environment, run

SCHEDULER = "scheduler"


def next_fires(trial: Trial, program: str) -> Figures:
    """Fires a second of processor time, and how many of a thousand fires are not ours. Raises BenchError."""
    python = sys.executable if trial.home is None else str(trial.home / "bin" / "python")
    command = [python, "-m", f"bench.programs.{program}"]
    said = run(command, trial.folder, clean_environment(BENCH_SIZE=str(trial.size)))
    try:
        told = json.loads(said)
        fires, seconds = int(told["fires"]), float(told["seconds"])
    except (ValueError, LookupError, TypeError):
        raise BenchError(f"{program} printed no figures but {said.strip()[-200:]!r}") from None
    if fires != max(trial.size // len(PAIRS), 1) * len(PAIRS):
        raise BenchError(f"{program} computed {fires} fires, not {trial.size}")
    return {"fires_per_s": fires / seconds, "differing_per_mille": 1000 * _differing(trial.folder) / fires}


def firing_peer(name: str, options: str, package: str) -> Peer:
    """A library that computes next fires; its program is `firing_<name>`."""

    def turn(trial: Trial) -> Figures:
        return next_fires(trial, f"firing_{name}")

    subject: Subject = each_turn(turn)
    return Peer(name, options, Pip(name, (package,)), {SCHEDULER: subject})


def _differing(folder: Path) -> int:
    """How many fires of the file are not what ours are."""
    told = array("q")
    told.frombytes((folder / "fires").read_bytes())
    differing, at = 0, 0
    for expression, zone in PAIRS:
        count = told[at]
        theirs = told[at + 1 : at + 1 + count]
        differing += count - len(set(theirs) & set(_ours(expression, zone, count)))
        at += 1 + count
    return differing


@cache
def _ours(expression: str, zone: str, count: int) -> Sequence[int]:
    runs = Cron.parse(expression, timezone=zone).between(START_S * 1000 + 1, 2**53, limit=count)
    return [at // 1000 for at in runs]
