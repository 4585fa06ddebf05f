"""Puts jobs on our queue, a thousand in one call, and prints how many a second that were.

`python -m bench.programs.ours_fill [DELAY]`: with a delay they become ready that much later."""

from __future__ import annotations

import asyncio
import os
import sys
import time

from bench.programs.marks import SIZE
from bench.programs.ours import mail, noop
from workfleet import Client, NewJob, Retention

_BATCH = 1_000
# Beside peers that forget what has finished, ours does too.
_FORGET = Retention(completed_count=0) if "BENCH_FORGET" in os.environ else None


async def main(delay: str | None) -> None:
    async with Client(os.environ["WORKER_STORE"], app="bench") as client:
        begun = time.perf_counter()
        for start in range(0, SIZE, _BATCH):
            await client.enqueue_many(_job(number, delay) for number in range(start, min(start + _BATCH, SIZE)))
        print(SIZE / (time.perf_counter() - begun))


def _job(number: int, delay: str | None) -> NewJob[None]:
    if _FORGET:
        return noop.job(mail(number), retention=_FORGET)
    return noop.job(mail(number)) if delay is None else noop.job(mail(number), delay=delay)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else None))
