"""Our pool, as an application has it: a `@process` class, called through `Pools`, with every default but the number
of calls that may wait: 500 are always outstanding."""

from __future__ import annotations

import asyncio
import sys

from bench.programs import pool_calls
from bench.programs.pool_worker import Small
from workfleet import App, Pools
from workfleet.app.loops import run_loop

app = App("bench", store="memory://", jobs=[Small])
_AT_ONCE = 500


@app.on_bootstrap
async def measure(pools: Pools) -> None:
    small = await pools.pool(Small)
    await pools.get(Small).wait_ready()

    async def every(count: int) -> list[int]:
        answers, numbers = [0] * count, iter(range(count))

        async def caller() -> None:
            for number in numbers:
                answers[number] = await small.echo(number)

        await asyncio.gather(*(caller() for _ in range(_AT_ONCE)))
        return answers

    await pool_calls.measure_async(every, small.echo, small.kind_and_size)


if __name__ == "__main__":
    run_loop(lambda: app.run(until_idle=True))
    sys.exit(0)
