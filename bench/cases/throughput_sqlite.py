"""No-op jobs through one worker process, everything on, durable as shipped.

The jobs are enqueued before. A real `workfleet run --processes 1` works them off. The clock runs from the first
handler's start (noted by it) to the newest `finished_ms` in the store, which is the instant of the last settlement."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from workfleet.clock import SystemClock
from workfleet.model.jobs import JobState
from workfleet.ports.jobs import JobQuery
from workfleet.stores.open import open_store

from ..bench import Bench, BenchError, Figures, Trial, each_turn
from ..running import number, our_worker, ours, run

CONCURRENCY = "1000"


def fill(folder: Path, environ: dict[str, str], *delay: str) -> float:
    """Enqueue the jobs of a turn; jobs a second."""
    return number(run([sys.executable, "-m", "bench.programs.ours_fill", *delay], folder, environ), "the producer")


def _turn(trial: Trial) -> Figures:
    return {"jobs_per_s": jobs_per_s(trial)}


def jobs_per_s(trial: Trial, *, log_level: str | None = "warning", **settings: str) -> float:
    """How fast a worker with these settings in its environment works the jobs off."""
    environ = ours(trial.folder, trial.size, WORKER_CONCURRENCY=CONCURRENCY, **settings)
    fill(trial.folder, environ)
    with our_worker(trial.folder, environ, wait=False, log_level=log_level) as worker:
        begun_s = worker.wait_for_file("first")
        worker.wait_for_file("last")
        worker.wait_for(lambda: asyncio.run(_unfinished(trial.folder)) == 0, "the end of the last job", 60)
        ended_s = asyncio.run(_last_finished_s(trial.folder))
    return trial.size / (ended_s - begun_s)


async def _unfinished(folder: Path) -> int:
    store = await open_store(f"sqlite:///{folder / 'store.db'}", app="bench", clock=SystemClock(), create=False)
    try:
        counts = (await store.jobs.counts(housekeeping=False))["bench"]
    finally:
        await store.close()
    if counts.failed:
        raise BenchError(f"{counts.failed} jobs failed")
    return counts.waiting + counts.prioritized + counts.delayed + counts.active


async def _last_finished_s(folder: Path) -> float:
    store = await open_store(f"sqlite:///{folder / 'store.db'}", app="bench", clock=SystemClock(), create=False)
    try:
        # Finished first are deleted first, so that retention cannot take the last one away.
        found = await store.jobs.find(JobQuery("bench", (JobState.COMPLETED,), "noop", limit=10_000_000))
    finally:
        await store.close()
    return max(record.finished_ms or 0 for record in found) / 1000


BENCH = Bench(
    name="throughput-sqlite",
    about="no-op jobs through one worker process: typed payload, timeout, retries, attempt history, events; "
    f"synchronous=FULL; concurrency {CONCURRENCY}; from the first start to the last settlement",
    unit="jobs/s",
    figure="jobs_per_s",
    ours=each_turn(_turn),
    size=40_000,
    size_is="jobs",
    runs=3,
)
