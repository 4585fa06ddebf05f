"""No-op jobs through one worker process on Valkey, everything on, finished jobs removed.

The jobs are enqueued before. A real `workfleet run --processes 1` works them off. The clock runs from the first
handler's start (noted by it) to the moment at which no job is active any more: the last one is settled. A peer's stops
at the end of its last run, whatever it still has to acknowledge then. `left_jobs` are those that were settled and not
yet removed at that moment: all of ours are to be kept for no time, as the peers' are."""

from __future__ import annotations

import time

from workfleet.stores.redis.layout import Layout

from ..bench import Bench, BenchError, Figures, Trial, each_turn
from ..redis_peer import CONCURRENCY, THROUGHPUT
from ..running import our_worker, ours
from ..valkey import Valkey, serving
from .throughput_sqlite import fill

_POLL_S = 0.002
_UNDONE = ("prioritized", "delayed", "failed")
_LAYOUT = Layout("bench")


def _turn(trial: Trial) -> Figures:
    rate, left = worked_off(trial)
    return {"jobs_per_s": rate, "left_jobs": left}


def worked_off(trial: Trial, *, log_level: str | None = "warning", **settings: str) -> tuple[float, int]:
    """How fast a worker with these settings in its environment works the jobs off, and how many finished ones are left
    then."""
    with serving(trial.folder) as server:
        forget = {"WORKER_CONCURRENCY": str(CONCURRENCY), "BENCH_FORGET": "1"}
        environ = ours(trial.folder, trial.size, server.url, **forget, **settings)
        fill(trial.folder, environ)
        with our_worker(trial.folder, environ, wait=False, log_level=log_level) as worker:
            begun_s = worker.wait_for_file("first")
            worker.wait_for_file("last")
            worker.wait_for(lambda: _jobs(server, "LLEN", "active") == 0, "the last settlement", 60, _POLL_S)
            ended_s = time.time()
        unfinished = _jobs(server, "LLEN", "wait") + sum(_jobs(server, "ZCARD", each) for each in _UNDONE)
        if unfinished:
            raise BenchError(f"{unfinished} jobs were not completed")
        left = _jobs(server, "ZCARD", "completed")
    return trial.size / (ended_s - begun_s), left


def _jobs(server: Valkey, command: str, state: str) -> int:
    return server.count(command, _LAYOUT.queue("bench", state))


BENCH = Bench(
    name=THROUGHPUT,
    about="no-op jobs through one worker process: typed payload, timeout, retries, attempt history, events; "
    f"concurrency {CONCURRENCY}; finished jobs removed; Valkey without append-only file; from the first start to the "
    "last settlement",
    unit="jobs/s",
    figure="jobs_per_s",
    ours=each_turn(_turn),
    size=60_000,
    size_is="jobs (slow peers get fewer)",
    runs=3,
)
