"""Huey on Redis: run as a script it fills the queue, one a call, which is its only way."""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any

from bench.programs.marks import REDIS, SIZE, Marks, mail

marks = Marks()
huey: Any = import_module("huey").RedisHuey("bench", url=REDIS, results=False, blocking=True)


def _noop(mail: dict[str, object]) -> None:
    marks.run()


noop = huey.task(name="noop", retries=2)(_noop)

if __name__ == "__main__":
    # Huey names a task after its module, which is not `__main__` in the consumer.
    task: Any = import_module("bench.programs.huey_redis").noop
    begun = time.perf_counter()
    for number in range(SIZE):
        task(mail(number))
    print(SIZE / (time.perf_counter() - begun))
