"""BullMQ for Node: the same layout as ours, by the people who made it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..bench import Figures, Trial, each_turn
from ..environments import Npm
from ..peer import Peer
from ..redis_idle import idle
from ..redis_peer import THROUGHPUT, Commands, Setup, enqueue, setup, throughput
from ..running import latencies, run, started

_PROGRAM = Path(__file__).parent.parent / "programs" / "bullmq_node.mjs"


def _does(what: str) -> Commands:
    def command(_turned: Setup) -> Sequence[str]:
        return ["node", str(_PROGRAM), what]

    return command


_fill, _work, _send = _does("fill"), _does("work"), _does("send")


def _latency(trial: Trial) -> Figures:
    with setup(trial) as turned, started(_work(turned), trial.folder, turned.environ) as worker:
        worker.wait_for_file("ready")
        run(_send(turned), trial.folder, turned.environ)
    return latencies(trial.folder / "latencies")


def _idle(trial: Trial) -> Figures:
    with setup(trial) as turned, started(_work(turned), trial.folder, turned.environ) as worker:
        worker.wait_for_file("ready")
        return idle(turned.server, worker.family(), trial.size)


PEERS = (
    Peer(
        "bullmq-node",
        "bullmq 6.7.0 (npm) with ioredis 6.0.0, one Worker with concurrency 100, removeOnComplete and removeOnFail, "
        "addBulk a thousand a call, metrics off; acknowledges after the run",
        Npm("bullmq-node", ("bullmq@6.7.0", "ioredis@6.0.0")),
        {
            THROUGHPUT: throughput(_fill, _work, 1.0),
            "enqueue-redis": enqueue(_fill),
            "latency-redis": each_turn(_latency),
            "idle-redis": each_turn(_idle),
        },
    ),
)
