"""arq. It polls."""

from __future__ import annotations

from ..redis_peer import python_peer

PEERS = (
    python_peer(
        "arq",
        "arq 0.28.0 with hiredis, max_jobs=100, poll_delay=0.01 (0.5 by default), keep_result=0, quiet; acknowledges "
        "after the run",
        ("arq==0.28.0", "hiredis==3.5.0"),
        "arq_app",
        ("arq", "bench.programs.arq_app.WorkerSettings"),
        share=0.05,
    ),
)
