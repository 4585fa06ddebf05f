"""Huey on SQLite.

Of the options that its documentation names, these were tried for no-op tasks: one, two and four threads (more are
slower: every dequeue locks the file exclusively), fsync on and off, journal modes, page caches, results on and off,
strict_fifo, quiet and verbose logs. One thread, WAL, no results and quiet logs are the fastest. `huey-sqlite` promises
what we promise (synchronous FULL, which SQLite and so Huey have unless told otherwise): a comparison across promises
says nothing. `huey-sqlite-nosync` is the same with fsync=False, where a power cut can lose what was acknowledged."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

from ..bench import Figures, Subject, Trial, each_turn
from ..cases.idle_sqlite import SETTLE_S
from ..environments import Pip
from ..peer import Peer
from ..running import clean_environment, cpu_s, latencies, number, run, started, tally

_PINNED = Pip("huey", ("huey==3.5.4",))
_FASTEST = {"results": False, "fsync": False, "journal_mode": "wal"}
_DURABLE = {"results": False, "fsync": True, "journal_mode": "wal"}
_QUIET = ("-q", "-n", "-w", "1")


def _environ(trial: Trial, options: dict[str, object], **extra: str) -> dict[str, str]:
    told = {"BENCH_FOLDER": str(trial.folder), "BENCH_SIZE": str(trial.size), "BENCH_HUEY": json.dumps(options)}
    return clean_environment(**told, **extra)


def _bin(trial: Trial, name: str) -> str:
    assert trial.home is not None
    return str(trial.home / "bin" / name)


def _consumer(trial: Trial, *options: str) -> list[str]:
    return [_bin(trial, "huey_consumer"), "bench.programs.huey_app.huey", *_QUIET, *options]


def _fill(trial: Trial, environ: dict[str, str]) -> float:
    command = [_bin(trial, "python"), "-m", "bench.programs.huey_fill"]
    return number(run(command, trial.folder, environ), "Huey's producer")


def _throughput(options: dict[str, object], share: float) -> Subject:
    """From the first task's start to the end of the last one. `share` of our jobs takes it about five seconds."""

    def turn(trial: Trial) -> Figures:
        trial = _part(trial, share)
        environ = _environ(trial, options)
        _fill(trial, _environ(trial, _FASTEST))
        with started(_consumer(trial), trial.folder, environ) as consumer:
            begun_s = consumer.wait_for_file("first")
            ended_s = consumer.wait_for_file("last")
        return {"jobs_per_s": trial.size / (ended_s - begun_s)}

    return each_turn(turn)


def _enqueue(options: dict[str, object], share: float) -> Subject:
    def turn(trial: Trial) -> Figures:
        trial = _part(trial, share)
        return {"jobs_per_s": _fill(trial, _environ(trial, options))}

    return each_turn(turn)


def _part(trial: Trial, share: float) -> Trial:
    return replace(trial, size=max(round(trial.size * share), 1))


def _latency(*polling: str) -> Subject:
    def turn(trial: Trial) -> Figures:
        environ = _environ(trial, _DURABLE)
        with started(_consumer(trial, *polling), trial.folder, environ):
            run([_bin(trial, "python"), "-m", "bench.programs.huey_send"], trial.folder, environ)
        return latencies(trial.folder / "latencies")

    return each_turn(turn)


def _idle(trial: Trial) -> Figures:
    environ = _environ(trial, _DURABLE, BENCH_COUNT="1")
    with started(_consumer(trial), trial.folder, environ) as consumer:
        statements_at: Path = trial.folder / "statements"
        consumer.wait_for(statements_at.exists, "its first statement", 30)
        time.sleep(SETTLE_S)
        family, begun, statements = consumer.family(), time.monotonic(), tally(statements_at)
        before = cpu_s(family)
        time.sleep(trial.size)
        used, seconds = cpu_s(family) - before, time.monotonic() - begun
        statements = tally(statements_at) - statements
    return {"percent_of_a_core": used / seconds * 100, "statements_per_minute": statements / seconds * 60}


PEERS = (
    Peer(
        "huey-sqlite",
        "huey 3.5.4, SqliteHuey(results=False, fsync=True), `huey_consumer -q -n -w 1`: the fastest that is durable, "
        "as ours; latency with `-d 0.001 -m 0.001`, idle with the default polling",
        _PINNED,
        {
            "throughput-sqlite": _throughput(_DURABLE, 0.5),
            "enqueue-sqlite": _enqueue(_DURABLE, 0.2),
            "latency-sqlite": _latency("-d", "0.001", "-m", "0.001"),
            "idle-sqlite": each_turn(_idle),
        },
    ),
    Peer(
        "huey-sqlite-nosync",
        "as huey-sqlite, with fsync=False: not durable",
        _PINNED,
        {"throughput-sqlite": _throughput(_FASTEST, 2), "enqueue-sqlite": _enqueue(_FASTEST, 1)},
    ),
    Peer(
        "huey-sqlite-defaults",
        "as huey-sqlite, with the default polling (0.1 s, growing to 10 s)",
        _PINNED,
        {"latency-sqlite": _latency()},
    ),
)
