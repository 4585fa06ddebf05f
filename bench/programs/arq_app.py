"""arq's worker settings: run as a script it fills the queue, one a call, which is its only way."""

from __future__ import annotations

import asyncio
import logging
import time
from importlib import import_module
from typing import Any, ClassVar

from bench.programs.marks import CONCURRENCY, REDIS, SIZE, Marks, mail

marks = Marks()
# It tells of every job twice, where its documentation names no other way to be quiet.
logging.disable(logging.INFO)
arq: Any = import_module("arq")
_SERVER: Any = import_module("arq.connections").RedisSettings.from_dsn(REDIS)


async def noop(_context: dict[str, Any], mail: dict[str, object]) -> None:
    marks.run()


class WorkerSettings:
    """What `arq` reads. It polls, by default every half second, and waits that long after each look."""

    functions: ClassVar = [noop]
    redis_settings = _SERVER
    max_jobs = CONCURRENCY
    queue_read_limit = CONCURRENCY * 5
    poll_delay = 0.01
    keep_result = 0
    max_tries = 3
    job_timeout = 30


async def fill() -> None:
    pool = await arq.create_pool(_SERVER)
    begun = time.perf_counter()
    for number in range(SIZE):
        await pool.enqueue_job("noop", mail(number))
    print(SIZE / (time.perf_counter() - begun))
    await pool.aclose()


if __name__ == "__main__":
    asyncio.run(fill())
