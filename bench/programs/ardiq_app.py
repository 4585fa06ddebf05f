"""ArdiQ's application: run as a script it fills the queue, a thousand in a call."""

from __future__ import annotations

import asyncio
import time
from importlib import import_module
from typing import Any

from bench.programs.marks import CONCURRENCY, REDIS, SIZE, Marks, mail

_BATCH = 1_000
marks = Marks()
app: Any = import_module("ardiq").Ardiq(
    redis_url=REDIS, queue_name="bench", concurrency=CONCURRENCY, prefetch=CONCURRENCY * 4, result_ttl_ms=0
)


async def _noop(mail: dict[str, object]) -> None:
    marks.run()


noop = app.task(name="noop", max_retries=3, timeout=30)(_noop)


async def fill() -> None:
    begun = time.perf_counter()
    for start in range(0, SIZE, _BATCH):
        numbers = range(start, min(start + _BATCH, SIZE))
        await app.enqueue_many([noop.prepare(mail(number)) for number in numbers])
    print(SIZE / (time.perf_counter() - begun))


if __name__ == "__main__":
    asyncio.run(fill())
