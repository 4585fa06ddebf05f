"""A queue with a long backlog, beside the same queue without: jobs a second, and the memory of the worker.

A turn of ours is two fleets: one on a queue of `size` waiting jobs, one on a queue of `size` jobs that are due next
year and as many waiting ones as the empty queue has. All three are measured over their first 20,000 runs, from the
first handler's start to the start of the last of these."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..bench import Bench, Figures, Trial, each_turn
from ..running import our_worker, ours, rss_mb, worker_of
from .throughput_sqlite import CONCURRENCY, fill

MEASURED = 20_000
EMPTY = "empty-queue"


def _worked(folder: Path) -> Figures:
    """A worker in that folder runs `MEASURED` jobs."""
    with our_worker(folder, ours(folder, MEASURED, WORKER_CONCURRENCY=CONCURRENCY), wait=False) as program:
        begun_s = program.wait_for_file("first")
        ended_s = program.wait_for_file("last")
        memory = rss_mb(worker_of(program))
    return {"jobs_per_s": MEASURED / (ended_s - begun_s), "rss_mb": memory}


def _empty(trial: Trial) -> Figures:
    fill(trial.folder, ours(trial.folder, MEASURED))
    return _worked(trial.folder)


def _long(trial: Trial) -> Figures:
    waiting, delayed = trial.folder / "waiting", trial.folder / "delayed"
    waiting.mkdir()
    delayed.mkdir()
    fill(waiting, ours(waiting, MEASURED + trial.size))
    with_waiting = _worked(waiting)
    fill(delayed, ours(delayed, trial.size), "365d")
    fill(delayed, ours(delayed, MEASURED))
    with_delayed = _worked(delayed)
    return {
        "jobs_per_s": with_waiting["jobs_per_s"],
        "rss_mb": with_waiting["rss_mb"],
        "delayed_jobs_per_s": with_delayed["jobs_per_s"],
        "delayed_rss_mb": with_delayed["rss_mb"],
    }


def _beside(medians: Mapping[str, Figures]) -> Figures:
    if EMPTY not in medians:
        return {}
    ours_, empty = medians["workfleet"], medians[EMPTY]
    return {
        "rss_growth_mb": ours_["rss_mb"] - empty["rss_mb"],
        "delayed_rss_growth_mb": ours_["delayed_rss_mb"] - empty["rss_mb"],
        "delayed_ratio": ours_["delayed_jobs_per_s"] / empty["jobs_per_s"],
    }


BENCH = Bench(
    name="backlog-sqlite",
    about="as throughput-sqlite, with 1,000,000 more jobs waiting in the queue, beside the queue without these",
    unit="jobs/s",
    figure="jobs_per_s",
    ours=each_turn(_long),
    size=1_000_000,
    size_is="jobs in the backlog",
    runs=1,
    baselines={EMPTY: each_turn(_empty)},
    derive=_beside,
)
