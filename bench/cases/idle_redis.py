"""What a worker sends to Valkey that has nothing to do, as shipped (heartbeat and metrics on), and the processor time
of it and its supervisor."""

from __future__ import annotations

from ..bench import Bench, Figures, Trial, each_turn
from ..redis_idle import idle
from ..running import our_worker, ours
from ..valkey import serving


def _turn(trial: Trial) -> Figures:
    with serving(trial.folder) as server, our_worker(trial.folder, ours(trial.folder, 0, server.url)) as program:
        return idle(server, program.family(), trial.size)


BENCH = Bench(
    name="idle-redis",
    about="commands that an idle fleet (a supervisor and one worker process, one queue) sends to the server",
    unit="commands/min",
    figure="commands_per_minute",
    better="lower",
    ours=each_turn(_turn),
    size=60,
    size_is="seconds",
    runs=1,
)
