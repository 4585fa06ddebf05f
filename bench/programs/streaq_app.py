"""streaQ's worker and task: run as a script it fills the queue, a thousand in a call."""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any

from bench.programs.marks import CONCURRENCY, REDIS, SIZE, Marks, mail

_BATCH = 1_000
marks = Marks()
worker: Any = import_module("streaq").Worker(
    redis_url=REDIS, concurrency=CONCURRENCY, prefetch=CONCURRENCY * 2, anyio_kwargs={"use_uvloop": True}
)


async def _noop(mail: dict[str, object]) -> None:
    marks.run()


noop = worker.task(name="noop", max_tries=3, timeout=30, ttl=0, silent=True)(_noop)


async def fill() -> None:
    async with worker:
        begun = time.perf_counter()
        for start in range(0, SIZE, _BATCH):
            numbers = range(start, min(start + _BATCH, SIZE))
            await worker.enqueue_many([noop.enqueue(mail(number)) for number in numbers])
        print(SIZE / (time.perf_counter() - begun))


if __name__ == "__main__":
    import_module("anyio").run(fill)
