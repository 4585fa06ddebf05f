"""An application whose schedules are all added at run time, and whose handler notes how late it was begun."""

from __future__ import annotations

import time
from dataclasses import dataclass

from bench.programs.marks import FOLDER
from workfleet import App, Job

app = App("bench")
_told = (FOLDER / "began").open("a", buffering=1)


@dataclass
class Report:
    """What a run is about. One whose schedule has a jitter is late on purpose."""

    tenant: int
    jittered: bool


@app.handler("tick", queue="bench")
async def tick(job: Job[Report]) -> None:
    began_ms = time.time_ns() / 1e6
    if job.slot is not None and not job.data.jittered:
        _told.write(f"{began_ms - job.slot.timestamp() * 1000:.3f}\n")
