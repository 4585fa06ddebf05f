"""Feeds the soak's jobs evenly over the time, and writes down every id that the store has acknowledged.

`python -m tests.soak.producer FOLDER STORE QUEUES JOBS SECONDS SEED`"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sys
import time
from pathlib import Path

from tests.soak.patience import patiently
from workfleet import Client, JobType, NewJob, StoreUnavailable

_TICK_S = 0.02
WORK = JobType("work", int, type(None))


async def feed(folder: Path, store: str, queues: int, jobs: int, seconds: float, seed: int) -> None:
    draw = random.Random(seed)
    acknowledged = os.open(folder / "acknowledged", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    async with contextlib.AsyncExitStack() as stack:
        client = await patiently(lambda: stack.enter_async_context(Client(store, app="soak")))
        begun, sent = time.monotonic(), 0
        while sent < jobs:
            due = min(jobs, int((time.monotonic() - begun) / seconds * jobs) + 1)
            batch = [_job(number, queues, draw) for number in range(sent, due)]
            if batch:
                for job_id in await _enqueued(client, batch):
                    os.write(acknowledged, f"{job_id}\n".encode())
                sent = due
            await asyncio.sleep(_TICK_S)


def _job(number: int, queues: int, draw: random.Random) -> NewJob[None]:
    return WORK(draw.randint(1, 50), id=f"job-{number}", queue=f"soak-{number % queues}")


async def _enqueued(client: Client, batch: list[NewJob[None]]) -> list[str]:
    """Until the store has taken them: their ids are fixed, so that they may be sent again."""
    while True:
        try:
            return [ref.id for ref in await client.enqueue_many(batch)]
        except StoreUnavailable as error:
            print(f"again: {error}", file=sys.stderr, flush=True)
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    _, where, store, queues, jobs, seconds, seed = sys.argv
    asyncio.run(feed(Path(where), store, int(queues), int(jobs), float(seconds), int(seed)))
