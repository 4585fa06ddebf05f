"""Dramatiq's broker and actor: run as a script it fills the queue, one a call, which is its only way."""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any

from bench.programs.marks import REDIS, SIZE, Marks, mail

marks = Marks()
dramatiq: Any = import_module("dramatiq")
broker: Any = import_module("dramatiq.brokers.redis").RedisBroker(url=REDIS)
dramatiq.set_broker(broker)


def _noop(mail: dict[str, object]) -> None:
    marks.run()


noop = dramatiq.actor(actor_name="noop", max_retries=3, time_limit=30_000)(_noop)

if __name__ == "__main__":
    begun = time.perf_counter()
    for number in range(SIZE):
        noop.send(mail(number))
    print(SIZE / (time.perf_counter() - begun))
