"""What seeing it costs: no-op jobs with all of observability as shipped, and with all of it turned off.

Off means the settings that docs/metrics.md lists under "Turning it off". Both states take turns on each store, the one
that goes first changing every round, so that neither has the machine's better half."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from ..bench import Bench, Figures, Trial, Turn
from ..session import OURS
from .throughput_redis import worked_off
from .throughput_sqlite import jobs_per_s

OFF: Mapping[str, str] = MappingProxyType(
    {
        "WORKER_METRICS__COLLECTION__ENABLED": "false",
        "WORKER_METRICS__STORAGE": "memory",
        "WORKER_POOLS__MONITORING__METRICS": "false",
        "WORKER_TRACING__ENABLED": "false",
        "WORKER_LOG__LEVEL": "critical",
        "WORKER_HEALTH__MEMORY": "false",
        "WORKER_HEALTH__EVENT_LOOP": "false",
        "WORKER_HEALTH__DISK": "false",
        "WORKER_HEALTH__REDIS": "false",
        "WORKER_HEALTH__DATABASE": "false",
        "WORKER_HEALTH__STORE": "false",
        "WORKER_HEALTH__QUEUES": "false",
        "WORKER_HEALTH__SCHEDULES": "false",
        "WORKER_HEALTH__POOLS": "false",
        "WORKER_HEALTH__INTERVAL": "1d",
    }
)
"""A user's own settings, all documented."""
STORES: Mapping[str, Callable[[Trial, Mapping[str, str]], float]] = MappingProxyType(
    {
        "sqlite": lambda trial, settings: jobs_per_s(trial, log_level=None, **settings),
        "redis": lambda trial, settings: worked_off(trial, log_level=None, **settings)[0],
    }
)
_ON: Mapping[str, str] = MappingProxyType({})


@contextmanager
def _opened(trial: Trial) -> Iterator[Turn]:
    turns = 0

    def turn() -> Figures:
        nonlocal turns
        turns += 1
        figures: dict[str, float] = {}
        for store, rate in STORES.items():
            states = [("on", _ON), ("off", OFF)]
            for state, settings in states if turns % 2 else reversed(states):
                folder = trial.folder / f"{turns}-{store}-{state}"
                folder.mkdir()
                figures[f"{store}_{state}_jobs_per_s"] = rate(replace(trial, folder=folder), settings)
                figures[f"{store}_{state}_cpu_us"] = _cpu_s(folder) / trial.size * 1e6
        return figures

    yield turn


def _cpu_s(folder: Path) -> float:
    """Processor time of the worker process from the first handler's start to the last one's."""
    first, last = (float((folder / f"{name}.cpu").read_text()) for name in ("first", "last"))
    return last - first


def overheads(medians: Mapping[str, Figures]) -> Figures:
    """How much less throughput there is with all of it on, by store and, as `overhead_percent`, on the worse one;
    below zero where it was faster with it. The same of the processor time that a job takes, which depends less on what
    else the machine does."""
    found = medians[OURS]
    lost = {store: (1 - found[f"{store}_on_jobs_per_s"] / found[f"{store}_off_jobs_per_s"]) * 100 for store in STORES}
    dearer = {store: (found[f"{store}_on_cpu_us"] / found[f"{store}_off_cpu_us"] - 1) * 100 for store in STORES}
    return {
        "overhead_percent": max(lost.values()),
        **{f"{store}_overhead_percent": lost[store] for store in STORES},
        **{f"{store}_cpu_overhead_percent": dearer[store] for store in STORES},
    }


BENCH = Bench(
    name="observe",
    about="what metrics (kept in SQLite, everything collected), health, logs and spans (without an SDK) cost as "
    "shipped, beside the same with all of it turned off by its settings: no-op throughput as in `throughput-sqlite` "
    "and `throughput-redis`, on the worse of the two stores; `…_cpu_us` is the worker's processor time a job",
    unit="%",
    figure="overhead_percent",
    ours=_opened,
    size=150_000,
    size_is="jobs for each store and state",
    runs=3,
    better="lower",
    derive=overheads,
)
