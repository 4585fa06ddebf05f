"""Taskiq's broker and task: run as a script it fills the queue, one a call, which is its only way."""

from __future__ import annotations

import asyncio
import time
from importlib import import_module
from typing import Any

from bench.programs.marks import REDIS, SIZE, Marks, mail

marks = Marks()
# The broker that acknowledges. It reads from the stream's beginning, where the jobs are already.
broker: Any = import_module("taskiq_redis").RedisStreamBroker(REDIS, consumer_id="0", xread_count=1_000)


async def _noop(mail: dict[str, object]) -> None:
    marks.run()


noop = broker.task(task_name="noop")(_noop)


async def fill() -> None:
    await broker.startup()
    begun = time.perf_counter()
    for number in range(SIZE):
        await noop.kiq(mail(number))
    print(SIZE / (time.perf_counter() - begun))
    await broker.shutdown()


if __name__ == "__main__":
    asyncio.run(fill())
