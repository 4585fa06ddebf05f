"""The application of the soak: jobs of a given length that note their begin and their end outside the store.

A note is one `write` to a file of this process: what was written is the kernel's, so it outlives a SIGKILL."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from workfleet import App, Job

FOLDER = Path(os.environ["SOAK_FOLDER"])
QUEUES = int(os.environ["SOAK_QUEUES"])
app = App("soak", store=os.environ["SOAK_STORE"])


class Notes:
    """The file is opened at the first note: not every process that imports this runs jobs."""

    def __init__(self) -> None:
        self._file = -1

    def add(self, what: str, job_id: str) -> None:
        if self._file < 0:
            place = FOLDER / f"effects-{os.getpid()}-{time.time_ns()}"
            self._file = os.open(place, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        os.write(self._file, f"{time.time_ns()} {what} {job_id}\n".encode())


notes = Notes()


async def work(job: Job[int]) -> None:
    """The payload is how long it takes, in milliseconds."""
    notes.add("begin", job.id)
    await asyncio.sleep(job.data / 1000)
    notes.add("end", job.id)


def _declare(queue: str) -> None:
    @app.handler("work", queue=queue, attempts=1)
    async def on_queue(job: Job[int]) -> None:
        await work(job)


# Retention keeps the newest 10,000 completed jobs of a queue, and all must be there at the end to be counted.
for number in range(QUEUES):
    _declare(f"soak-{number}")
