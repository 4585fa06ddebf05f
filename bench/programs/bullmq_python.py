"""The PyPI package `bullmq`: run as a script it fills the queue, with the argument `work` it works it off."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from importlib import import_module
from typing import Any

from bench.programs.marks import CONCURRENCY, REDIS, SIZE, Marks, mail

bullmq: Any = import_module("bullmq")
marks = Marks()
_BATCH = 1_000
_KEEP_NONE = {"attempts": 3, "removeOnComplete": True, "removeOnFail": True}


async def fill() -> None:
    queue = bullmq.Queue("bench", {"connection": REDIS})
    begun = time.perf_counter()
    for start in range(0, SIZE, _BATCH):
        numbers = range(start, min(start + _BATCH, SIZE))
        await queue.addBulk([{"name": "noop", "data": mail(number), "opts": _KEEP_NONE} for number in numbers])
    print(SIZE / (time.perf_counter() - begun))
    await queue.close()


async def noop(_job: Any, _token: str) -> None:
    marks.run()


async def work() -> None:
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    worker = bullmq.Worker("bench", noop, {"connection": REDIS, "concurrency": CONCURRENCY})
    await over.wait()
    await worker.close()


if __name__ == "__main__":
    asyncio.run(work() if sys.argv[1:] == ["work"] else fill())
