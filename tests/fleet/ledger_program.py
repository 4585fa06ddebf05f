"""The application of the tests of the run ledger: a scheduled run that does not outlive its process the first time."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from workfleet import App, RunEvent

HERE = Path(os.environ["TEST_FOLDER"])
app = App("ledger", store=f"sqlite:///{HERE / 'store.db'}")


@app.schedule("deadly", every="1d")
async def deadly() -> None:
    """Ends its worker, the first time."""
    if not (HERE / "died").exists():
        (HERE / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(60)


@app.schedule("long", every="1d")
async def long() -> None:
    """Goes on until a test lets it end."""
    (HERE / "begun").touch()
    while not (HERE / "end").exists():
        await asyncio.sleep(0.02)


@app.schedule("short", every="1d")
async def short() -> None: ...


@app.schedule("fatal", every="1d")
async def fatal() -> None:
    """Ends its worker each time, once the listener has heard of the end of the one before: a process that dies tells
    nothing more."""
    begun, heard = HERE / "fatal", HERE / "heard"
    earlier = len(begun.read_text()) if begun.exists() else 0
    while earlier and not (heard.exists() and len(heard.read_text().splitlines()) >= earlier):
        await asyncio.sleep(0.02)
    begun.write_text("x" * (earlier + 1))
    os.kill(os.getpid(), signal.SIGKILL)
    await asyncio.sleep(60)


@app.listener("retry", "failure")
def hear(event: RunEvent) -> None:
    with (HERE / "heard").open("a") as heard:
        heard.write(f"{event.kind} of {event.schedule}: {event.outcome}\n")
