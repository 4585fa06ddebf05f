"""Dramatiq. Its concurrency is threads, and more of them are slower."""

from __future__ import annotations

from ..redis_peer import python_peer

PEERS = (
    python_peer(
        "dramatiq",
        "dramatiq 2.2.1 with hiredis, one process with 8 threads (its default; 100 are slower), no results; "
        "acknowledges after the run",
        ("dramatiq[redis]==2.2.1", "hiredis==3.5.0"),
        "dramatiq_app",
        ("dramatiq", "-p", "1", "-t", "8", "bench.programs.dramatiq_app"),
        share=0.12,
    ),
)
