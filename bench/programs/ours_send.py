"""Sends jobs to an idle worker, one at a time and randomly spaced: each carries the instant at which it was sent."""

from __future__ import annotations

import asyncio
import os
import random
import time

from bench.programs.marks import SIZE, WARM, wait_for_lines
from bench.programs.ours import late, mail
from workfleet import Client


async def main() -> None:
    async with Client(os.environ["WORKER_STORE"], app="bench") as client:
        for number in range(WARM):
            await client.enqueue(late.job(mail(number)))
            await asyncio.to_thread(wait_for_lines, "warm", number + 1)
        for number in range(SIZE):
            await asyncio.sleep(random.uniform(0.02, 0.06))
            await client.enqueue(late.job(mail(number, time.monotonic_ns())))
    wait_for_lines("latencies", SIZE)


if __name__ == "__main__":
    asyncio.run(main())
