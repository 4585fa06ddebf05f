"""The next fires of twenty cron expressions in five zones, each parsed once, one fire after the other; and what the
scheduler does with very many schedules.

Ours gives instants as milliseconds, cronsim and APScheduler datetimes in the zone, croniter timestamps: what each
gives without a detour. It is processor time, so that what else runs on the machine does not count. How late slots are,
and how long it takes to load, is wall time, taken once a run of the bench, before the rounds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .. import scheduling
from ..bench import Bench, Figures, Trial, Turn, each_turn
from ..firing import SCHEDULER, next_fires


@contextmanager
def _ours(trial: Trial) -> Iterator[Turn]:
    many: dict[str, float] = {}
    for measured in (scheduling.lateness, scheduling.load):
        folder = trial.folder / measured.__name__
        folder.mkdir()
        many |= measured(folder)

    def turn(each: Trial) -> Figures:
        return {"fires_per_s": next_fires(each, "firing_ours")["fires_per_s"], **many}

    with each_turn(turn)(trial) as taken:
        yield taken


BENCH = Bench(
    name=SCHEDULER,
    about="next fires of 20 cron expressions of five fields in 5 time zones, each parsed once, walked from 2026 on; "
    "`differing_per_mille` of a peer's fires are not ours, because of how it treats changes of the clock. "
    "`lateness_p99_ms` is from a slot to the start of its handler, of 10,000 schedules on SQLite with one worker; "
    "`load_s` is what it takes to bring 100,000 into a new store until the scheduler waits, `load_mb` its peak memory, "
    "`ready_s` and `ready_mb` a worker's start on that store and its peak memory",
    unit="fires/s",
    figure="fires_per_s",
    ours=_ours,
    size=10_000,
    size_is="fires",
    runs=5,
    warmups=1,
)
