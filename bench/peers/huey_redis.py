"""Huey on Redis. It takes a task off the queue before the run, so that there is nothing to acknowledge."""

from __future__ import annotations

from ..redis_peer import python_peer

PEERS = (
    python_peer(
        "huey-redis",
        "huey 3.5.4, RedisHuey(results=False, blocking=True) with hiredis, `huey_consumer -q -n -w 1` (one thread; "
        "more are slower); no acknowledgement",
        ("huey==3.5.4", "redis==8.1.0", "hiredis==3.5.0"),
        "huey_redis",
        ("huey_consumer", "bench.programs.huey_redis.huey", "-q", "-n", "-w", "1"),
        share=0.12,
    ),
)
