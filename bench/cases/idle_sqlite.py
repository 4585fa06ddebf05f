"""What a worker costs that has nothing to do: processor time of supervisor and worker, as shipped (heartbeat and
metrics on), and the SQL statements that the worker sends to the store's file."""

from __future__ import annotations

import time

from ..bench import Bench, BenchError, Figures, Trial, each_turn
from ..running import cpu_s, our_worker, ours, tally, worker_of

SETTLE_S = 5.0
"""Starting up is over by then."""


def _turn(trial: Trial) -> Figures:
    environ = ours(trial.folder, trial.size, BENCH_COUNT="1")
    with our_worker(trial.folder, environ) as program:
        worker = worker_of(program)
        rest = [process for process in program.family() if process != worker]
        time.sleep(SETTLE_S)
        begun, statements = time.monotonic(), tally(trial.folder / "statements")
        before = cpu_s([worker]), cpu_s(rest)
        time.sleep(trial.size)
        after, seconds = (cpu_s([worker]), cpu_s(rest)), time.monotonic() - begun
        statements = tally(trial.folder / "statements") - statements
        if not worker.is_running():
            raise BenchError("the worker ended while it was idle")
    percent = [(late - early) / seconds * 100 for early, late in zip(before, after, strict=True)]
    return {
        "percent_of_a_core": sum(percent),
        "worker_percent": percent[0],
        "supervisor_percent": percent[1],
        "statements_per_minute": statements / seconds * 60,
    }


BENCH = Bench(
    name="idle-sqlite",
    about="processor time of an idle fleet: a supervisor and one worker process",
    unit="% of a core",
    figure="percent_of_a_core",
    better="lower",
    ours=each_turn(_turn),
    size=30,
    size_is="seconds",
    runs=1,
)
