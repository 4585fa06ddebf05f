"""SAQ's queue and settings: run as a script it fills the queue, one a call, which is its only way."""

from __future__ import annotations

import asyncio
import time
from importlib import import_module
from typing import Any

from bench.programs.marks import CONCURRENCY, REDIS, SIZE, Marks, mail

marks = Marks()
queue: Any = import_module("saq").Queue.from_url(REDIS, max_concurrent_ops=CONCURRENCY)


async def noop(_context: dict[str, Any], *, mail: dict[str, object]) -> None:
    marks.run()


settings = {"queue": queue, "functions": [noop], "concurrency": CONCURRENCY}


async def fill() -> None:
    begun = time.perf_counter()
    for number in range(SIZE):
        # A ttl of -1: nothing of a finished job is kept.
        await queue.enqueue("noop", mail=mail(number), timeout=30, retries=3, ttl=-1)
    print(SIZE / (time.perf_counter() - begun))
    await queue.disconnect()


if __name__ == "__main__":
    asyncio.run(fill())
