"""The application of the health tests: a handler that blocks the loop, a pool whose children die, a schedule."""

from __future__ import annotations

import os
import time

from workfleet import App, Job, Pool, RedisModule, process, public

STORE, CACHE = os.environ["TEST_STORE"], os.environ.get("TEST_CACHE")
app = App("ill", store=STORE, modules=[RedisModule(clients={"cache": CACHE})] if CACHE else [])


@process("doomed", size=1)
class Doomed:
    @public
    def die(self) -> None:
        os._exit(3)


@app.handler("block", queue="work")
async def block(job: Job[float]) -> None:
    time.sleep(job.data)


@app.handler("die", queue="work", attempts=1)
async def die(job: Job[None], doomed: Pool[Doomed]) -> None:
    await doomed.die()


@app.schedule("report", every="1s")
async def report() -> None:
    return None


app.jobs.append(Doomed)
