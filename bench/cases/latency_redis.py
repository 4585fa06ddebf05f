"""From the call that enqueues, in one process, to the start of the handler in another that is idle, over Valkey.

Jobs are sent one at a time, 20 to 60 ms apart at random. The instant is taken before the call, so the way to the
server counts, and the way from it to the worker."""

from __future__ import annotations

import sys

from ..bench import Bench, Figures, Trial, each_turn
from ..running import latencies, our_worker, ours, run
from ..valkey import serving


def _turn(trial: Trial) -> Figures:
    with serving(trial.folder) as server:
        environ = ours(trial.folder, trial.size, server.url)
        with our_worker(trial.folder, environ):
            run([sys.executable, "-m", "bench.programs.ours_send"], trial.folder, environ)
    return latencies(trial.folder / "latencies")


BENCH = Bench(
    name="latency-redis",
    about="median time from enqueue in one process to handler start in another, idle one",
    unit="ms",
    figure="p50_ms",
    better="lower",
    ours=each_turn(_turn),
    size=300,
    size_is="jobs",
    runs=3,
)
