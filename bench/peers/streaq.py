"""streaQ."""

from __future__ import annotations

from ..redis_peer import python_peer

PEERS = (
    python_peer(
        "streaq",
        "streaq 7.2.0 with uvloop, concurrency 100, prefetch 200, no results (ttl=0), silent tasks; acknowledges after "
        "the run",
        ("streaq==7.2.0", "uvloop==0.22.1"),
        "streaq_app",
        ("streaq", "run", "bench.programs.streaq_app:worker"),
        share=0.05,
    ),
)
