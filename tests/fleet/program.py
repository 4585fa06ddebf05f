"""The application of the kill tests: jobs that take a moment and note each run in a database of their own."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from pathlib import Path

from workfleet import App, Job, NewJob, Pool, process, public

HERE = Path(os.environ["TEST_FOLDER"])
JOBS = 40
app = App("killed", store=f"sqlite:///{HERE / 'store.db'}")


@process("makers", size=2)
class Maker:
    @public
    def make(self, number: int) -> int:
        time.sleep(0.2)
        return os.getpid()


def note(number: int, what: str) -> None:
    """One row a run, and one row a job that is done: the application's own table, written in one transaction."""
    with sqlite3.connect(HERE / "app.db", timeout=30) as db:
        db.execute("create table if not exists runs (number integer, what text, pid integer)")
        db.execute("create table if not exists done (number integer primary key)")
        db.execute("insert into runs values (?, ?, ?)", (number, what, os.getpid()))
        if what == "end":
            db.execute("insert or ignore into done values (?)", (number,))
    db.close()


@app.handler("work", queue="work", attempts=3, backoff="10ms")
async def work(job: Job[int], makers: Pool[Maker]) -> int:
    await asyncio.to_thread(note, job.data, "begin")
    pid = await makers.make(job.data)
    (HERE / f"child-{pid}").touch()
    await asyncio.to_thread(note, job.data, "end")
    return job.data


@app.schedule("feed", run_on_start=True)
async def feed() -> list[NewJob[int]]:
    """The same jobs at every start, under the same ids: what is done is not done again."""
    return [work.job(number, id=f"job-{number}") for number in range(JOBS)]


app.jobs.append(Maker)
