"""Celery."""

from __future__ import annotations

from ..redis_peer import python_peer

PEERS = (
    python_peer(
        "celery",
        "celery 5.7.0 with hiredis, pool solo (the fastest for no-op tasks; prefork and threads are slower), "
        "prefetch 100, no results, no gossip, mingle, heartbeat or events; acknowledges after the run (acks_late)",
        ("celery[redis]==5.7.0", "hiredis==3.5.0"),
        "celery_app",
        (
            "celery", "-A", "bench.programs.celery_app", "worker", "--pool", "solo", "--loglevel", "WARNING",
            "--without-gossip", "--without-mingle", "--without-heartbeat",
        ),
        share=0.05,
    ),
)  # fmt: skip
