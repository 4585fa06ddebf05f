"""The application of the hard cases: jobs that kill, block or exhaust the process that runs them."""

from __future__ import annotations

import asyncio
import ctypes
import os
import time
from pathlib import Path

from workfleet import App, Job, Pool, process, public

HERE = Path(os.environ["TEST_FOLDER"])
app = App("hard", store=f"sqlite:///{HERE / 'store.db'}")


def note(what: str) -> None:
    with (HERE / "notes").open("a") as notes:
        notes.write(f"{what} {os.getpid()}\n")


@process("hogs", size=1, memory="200MB")
class Hog:
    @public
    def eat(self, megabytes: int) -> int:
        eaten = b"x" * megabytes * 1_000_000
        time.sleep(2)
        return len(eaten)


app.jobs.append(Hog)


@app.handler("killer", queue="killers")
async def killer(job: Job[int]) -> None:
    """A job that ends its worker each time, by this signal."""
    note("killer")
    os.kill(os.getpid(), job.data)
    await asyncio.sleep(60)


@app.handler("holder", queue="holders")
async def holder(job: Job[int]) -> str:
    """Holds the interpreter lock: C code that never gives it back, as a broken extension does."""
    note("holder")
    ctypes.PyDLL(None).sleep(job.data)
    return "held"


@app.handler("sticker", queue="stickers")
async def sticker(job: Job[None]) -> str:
    """Blocks the event loop for ever, the first time."""
    note("sticker")
    if not (HERE / "stuck").exists():
        (HERE / "stuck").touch()
        while True:
            time.sleep(60)  # a signal does not wake it
    return "moved on"


@app.handler("hungry", queue="hungry", attempts=1)
async def hungry(job: Job[int], hogs: Pool[Hog]) -> int:
    note("hungry")
    return await hogs.eat(job.data)


@app.handler("forks", queue="forks")
async def forks(job: Job[None]) -> str:
    """Forks and returns in both processes."""
    pid = os.fork()
    note("child" if pid == 0 else "parent")
    return "child" if pid == 0 else "parent"


@app.handler("forks-in-thread", queue="forks")
def forks_in_thread(job: Job[None]) -> str:
    pid = os.fork()
    note("child" if pid == 0 else "parent")
    return "child" if pid == 0 else "parent"


@app.handler("plain", queue="plain")
async def plain(job: Job[None]) -> int:
    await asyncio.sleep(0.02)
    return os.getpid()
