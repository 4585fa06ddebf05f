"""Our application: jobs that do nothing, with everything on that a job has by default, and a typed payload."""

from __future__ import annotations

import os
from dataclasses import dataclass

import apsw

from bench.programs.marks import FOLDER, Marks, Tally
from workfleet import App, Job

app = App("bench")
marks = Marks()


@dataclass
class Mail:
    """What a job carries; a peer's job carries the same fields."""

    user_id: int
    address: str
    subject: str
    tags: list[str]
    sent_ns: int = 0


@app.handler("noop", queue="bench", timeout="30s", attempts=3)
async def noop(job: Job[Mail]) -> None:
    marks.run()


@app.handler("late", queue="bench", timeout="30s", attempts=3)
async def late(job: Job[Mail]) -> None:
    marks.began(job.data.sent_ns)


def mail(number: int, sent_ns: int = 0) -> Mail:
    """The payload of one job."""
    return Mail(number, f"user{number}@example.org", "Your order has been shipped", ["order", "shipping"], sent_ns)


def _count_statements() -> None:
    """Every SQL statement on the store's file from now on, so that an idle worker's can be read from outside."""
    tally = Tally(FOLDER / "statements")

    def opened(connection: apsw.Connection) -> None:
        if connection.filename.endswith("store.db"):
            connection.trace_v2(apsw.SQLITE_TRACE_STMT, lambda _event: tally.add())

    apsw.connection_hooks.append(opened)


if "BENCH_COUNT" in os.environ:
    _count_statements()
