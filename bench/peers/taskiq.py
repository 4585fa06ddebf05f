"""Taskiq with its broker on Redis streams, the one that acknowledges."""

from __future__ import annotations

from ..redis_peer import python_peer

PEERS = (
    python_peer(
        "taskiq",
        "taskiq 0.13.0 with taskiq-redis 1.2.4 (RedisStreamBroker), uvloop and hiredis, one process, 100 async tasks, "
        "no parsing, no results, quiet; acknowledges after the run",
        ("taskiq==0.13.0", "taskiq-redis==1.2.4", "uvloop==0.22.1", "hiredis==3.5.0"),
        "taskiq_app",
        (
            "taskiq", "worker", "bench.programs.taskiq_app:broker", "--workers", "1", "--max-async-tasks", "100",
            "--max-prefetch", "100", "--no-parse", "--ack-type", "when_executed", "--log-level", "WARNING",
        ),
        share=0.15,
    ),
)  # fmt: skip
