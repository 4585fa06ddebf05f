"""The next fires of twenty cron expressions in five zones, each parsed once, one fire after the other.

Ours gives instants as milliseconds, cronsim and APScheduler datetimes in the zone, croniter timestamps: what each
gives without a detour. It is processor time, so that what else runs on the machine does not count."""

from __future__ import annotations

from ..bench import Bench, Figures, Trial, each_turn
from ..firing import SCHEDULER, next_fires


def _turn(trial: Trial) -> Figures:
    return {"fires_per_s": next_fires(trial, "firing_ours")["fires_per_s"]}


BENCH = Bench(
    name=SCHEDULER,
    about="next fires of 20 cron expressions of five fields in 5 time zones, each parsed once, walked from 2026 on; "
    "`differing_per_mille` of a peer's fires are not ours, because of how it treats changes of the clock",
    unit="fires/s",
    figure="fires_per_s",
    ours=each_turn(_turn),
    size=10_000,
    size_is="fires",
    runs=5,
    warmups=1,
)
