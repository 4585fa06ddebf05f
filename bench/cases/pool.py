"""Calls of a pool of two processes: small ones at once, small ones one by one, and one with 10 MB as its argument.

Ours is an application's `@process` class, called through `Pools`, with every default (timeouts, health checks, events,
metrics) but the number of calls that may wait: 500 are always outstanding. The peers are given all at once. Each turn
starts a program of its own, which waits for its children and warms up before it measures."""

from __future__ import annotations

from ..bench import Bench
from ..pooled import EXECUTOR, POOL, calls, ratios
from ..session import OURS

BENCH = Bench(
    name=POOL,
    about="small calls a second over two children, each sent on its own, ours 500 at once, the peers' all at once; "
    "`p50_ms` is the median time of a single one, `large_ms` that of a call with 10 MB of bytes as its argument; "
    "`p50_ratio_…` and `large_ratio_…` are ours divided by a peer's",
    unit="calls/s",
    figure="calls_per_s",
    ours=calls("pool_ours"),
    size=40_000,
    size_is="calls",
    runs=7,
    warmups=1,
    baselines={EXECUTOR: calls("pool_executor", 0.15)},
    derive=lambda medians: ratios(medians, OURS),
)
