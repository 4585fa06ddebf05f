"""A program that leaves its loop without stopping its pool, in the middle of a call."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.pools.workers import Basic
from workfleet.clock import SystemClock
from workfleet.pools.options import ChildSpec, PoolOptions
from workfleet.pools.pool import ProcessPool


async def main(mark: str) -> None:
    pool = ProcessPool(
        ChildSpec.of(Basic), PoolOptions(name="p", size=2), clock=SystemClock(), publish=lambda event: None
    )
    call = asyncio.create_task(pool.call("begin", (mark,)))
    while not Path(mark).exists():
        await asyncio.sleep(0.01)
    print(*pool.stats().pids, flush=True)
    call.cancel()


asyncio.run(main(sys.argv[1]))
