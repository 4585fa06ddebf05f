"""Celery's application: run as a script it fills the queue, one a call, which is its only way."""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any

from bench.programs.marks import CONCURRENCY, REDIS, SIZE, Marks, mail

marks = Marks()
app: Any = import_module("celery").Celery("bench", broker=REDIS)
app.conf.update(
    task_ignore_result=True,
    task_acks_late=True,
    worker_prefetch_multiplier=CONCURRENCY,
    worker_send_task_events=False,
    task_serializer="json",
    broker_connection_retry_on_startup=True,
)


def _noop(mail: dict[str, object]) -> None:
    marks.run()


noop = app.task(name="noop")(_noop)

if __name__ == "__main__":
    with app.producer_or_acquire() as producer:
        begun = time.perf_counter()
        for number in range(SIZE):
            noop.apply_async((mail(number),), producer=producer)
        print(SIZE / (time.perf_counter() - begun))
