"""Enqueueing alone on Valkey: nothing works the jobs off. A thousand in a call, ours and the peer's."""

from __future__ import annotations

from ..bench import Bench, Figures, Trial, each_turn
from ..running import ours
from ..valkey import serving
from .throughput_sqlite import fill


def _turn(trial: Trial) -> Figures:
    with serving(trial.folder) as server:
        return {"jobs_per_s": fill(trial.folder, ours(trial.folder, trial.size, server.url))}


BENCH = Bench(
    name="enqueue-redis",
    about="jobs enqueued by one process, a thousand a call; Valkey without append-only file",
    unit="jobs/s",
    figure="jobs_per_s",
    ours=each_turn(_turn),
    size=50_000,
    size_is="jobs",
    runs=5,
)
