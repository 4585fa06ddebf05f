"""SAQ."""

from __future__ import annotations

from ..redis_peer import python_peer

PEERS = (
    python_peer(
        "saq",
        "saq 0.26.4 with hiredis, concurrency 100, as many operations at once, nothing kept (ttl=-1), quiet; "
        "acknowledges after the run",
        ("saq[redis,hiredis]==0.26.4", "typing-extensions==4.16.0"),
        "saq_app",
        ("saq", "bench.programs.saq_app.settings", "--quiet"),
        share=0.1,
    ),
)
