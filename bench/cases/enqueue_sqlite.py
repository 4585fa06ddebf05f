"""Enqueueing alone: nothing works the jobs off. Ours in batches of a thousand, as `Client.enqueue_many` sends them."""

from __future__ import annotations

from ..bench import Bench, Figures, Trial, each_turn
from ..running import ours
from .throughput_sqlite import fill


def _turn(trial: Trial) -> Figures:
    return {"jobs_per_s": fill(trial.folder, ours(trial.folder, trial.size))}


BENCH = Bench(
    name="enqueue-sqlite",
    about="jobs enqueued by one process, ours a thousand a call; synchronous=FULL",
    unit="jobs/s",
    figure="jobs_per_s",
    ours=each_turn(_turn),
    size=50_000,
    size_is="jobs",
    runs=5,
)
