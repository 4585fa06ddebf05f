"""BullMQ's port to Python, which works with Node's."""

from __future__ import annotations

from ..redis_peer import python_peer

PEERS = (
    python_peer(
        "bullmq-python",
        "bullmq 3.4.4 (PyPI) with hiredis, one Worker with concurrency 100, removeOnComplete and removeOnFail; "
        "acknowledges after the run",
        ("bullmq==3.4.4", "redis==8.1.0", "hiredis==3.5.0"),
        "bullmq_python",
        ("python", "-m", "bench.programs.bullmq_python", "work"),
        share=0.12,
    ),
)
