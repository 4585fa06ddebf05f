"""An application whose handlers hold up the loop of their worker."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from workfleet import App, Job

HERE = Path(os.environ["TEST_FOLDER"])
app = App("blocking", store=f"sqlite:///{HERE / 'store.db'}")


@app.handler("mail.send", queue="q")
async def send(job: Job[float]) -> None:
    until = time.monotonic() + job.data
    while time.monotonic() < until:
        pass


@app.handler("mail.wait", queue="q")
async def wait(job: Job[float]) -> None:
    await asyncio.sleep(job.data)
