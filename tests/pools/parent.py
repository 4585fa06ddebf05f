"""A program whose pool is at work when the program is killed. Prints the pids of child and grandchild."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.pools.workers import Basic
from workfleet.clock import SystemClock
from workfleet.pools.options import ChildSpec, PoolOptions
from workfleet.pools.pool import ProcessPool


async def main(method: str, mark: str) -> None:
    pool = ProcessPool(
        ChildSpec.of(Basic), PoolOptions(name="p", size=1), clock=SystemClock(), publish=lambda event: None
    )
    pool.start()
    grandchild = await pool.call("spawn")
    call = asyncio.create_task(pool.call(method, (mark,)))
    while not Path(mark).exists():
        await asyncio.sleep(0.01)
    print(pool.stats().pids[0], grandchild, flush=True)
    await call


asyncio.run(main(*sys.argv[1:]))
