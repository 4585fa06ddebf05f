"""ArdiQ, whose loop and connections are Rust."""

from __future__ import annotations

from ..redis_peer import python_peer

PEERS = (
    python_peer(
        "ardiq",
        "ardiq 1.2.0 on Python 3.12, concurrency 100, prefetch 400, results dropped (result_ttl_ms=0); acknowledges "
        "after the run",
        ("ardiq==1.2.0",),
        "ardiq_app",
        ("ardiq", "run", "--quiet", "bench.programs.ardiq_app:app"),
        share=0.6,
        python="3.12",
    ),
)
