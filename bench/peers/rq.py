"""RQ, with the worker that does not fork for every job, which its documentation names as the faster one."""

from __future__ import annotations

from ..redis_peer import python_peer

PEERS = (
    python_peer(
        "rq",
        "rq 3.0.0 with hiredis, SimpleWorker (one job at a time, as all of RQ's), result_ttl=0, failure_ttl=0, quiet; "
        "acknowledges after the run",
        ("rq==3.0.0", "hiredis==3.5.0"),
        "rq_app",
        ("python", "-m", "bench.programs.rq_work"),
        share=0.05,
    ),
)
