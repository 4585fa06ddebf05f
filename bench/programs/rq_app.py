"""RQ's function: run as a script it fills the queue, a thousand in a pipeline."""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any

from bench.programs.marks import REDIS, SIZE, Marks, mail

_BATCH = 1_000
marks = Marks()


def noop(_mail: dict[str, object]) -> None:
    marks.run()


def fill() -> None:
    rq: Any = import_module("rq")
    queue = rq.Queue("bench", connection=import_module("redis").Redis.from_url(REDIS))
    begun = time.perf_counter()
    for start in range(0, SIZE, _BATCH):
        numbers = range(start, min(start + _BATCH, SIZE))
        # By name: the worker imports the module, in which this script is not `__main__`.
        queue.enqueue_many([_job(queue, number) for number in numbers])
    print(SIZE / (time.perf_counter() - begun))


def _job(queue: Any, number: int) -> Any:
    function = "bench.programs.rq_app.noop"
    return queue.prepare_data(function, (mail(number),), timeout=30, result_ttl=0, failure_ttl=0, description="noop")


if __name__ == "__main__":
    fill()
