"""The application of the runs over Redis: jobs that note each run in a file of their own."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from workfleet import App, Job, NewJob

HERE = Path(os.environ["TEST_FOLDER"])
JOBS = 30
app = App("killed")


@app.handler("work", queue="work", attempts=3, backoff="10ms")
async def work(job: Job[int]) -> int:
    (HERE / f"begin-{job.data}").touch()
    await asyncio.sleep(0.3)
    (HERE / f"end-{job.data}").touch()
    return job.data


@app.schedule("feed", run_on_start=True)
async def feed() -> list[NewJob[int]]:
    """The same jobs at every start, under the same ids: what is done is not done again."""
    return [work.job(number, id=f"job-{number}") for number in range(JOBS)]
