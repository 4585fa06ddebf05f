"""The application of the tests of durable schedules: what its code defines is in a file that the test writes."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path

from workfleet import App, Job

HERE = Path(os.environ["TEST_FOLDER"])
CODE = json.loads((HERE / "code.json").read_text())
TAKES_S = float(os.environ.get("TEST_TAKES_S", "0"))
app = App("durable")


def note(what: str, slot_ms: int | None = None) -> None:
    """One line in one write, so that those of several processes never mix."""
    line = {"what": what, "pid": os.getpid(), "at_ms": time.time_ns() // 1_000_000, "slot_ms": slot_ms}
    with (HERE / "notes").open("ab", buffering=0) as file:
        file.write(json.dumps(line).encode() + b"\n")


@app.handler("ping", queue="pings")
async def ping(job: Job[str]) -> None:
    note(job.data, None if job.slot is None else round(job.slot.timestamp() * 1000))


for name, options in CODE.items():

    @app.schedule(name, **options)
    async def scheduled(job: Job[None]) -> None:
        note(f"begin {job.schedule}", None if job.slot is None else round(job.slot.timestamp() * 1000))
        await asyncio.sleep(TAKES_S)
        note(f"end {job.schedule}")
