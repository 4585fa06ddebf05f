"""A real `workfleet run` with an outbox, whose workers are killed while the application writes."""

from __future__ import annotations

import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from tests.fleet.running import kill, start, until
from tests.outbox.database import OUTBOX
from workfleet import JobType

WORK = JobType("work", int, int, queue="work")
PROGRAM = """
import os, pathlib
from workfleet import App, Job, OutboxModule
here = pathlib.Path(os.environ["TEST_FOLDER"])
outbox = OutboxModule(database=f"sqlite:///{here / 'own.db'}", poll="100ms", batch=7)
app = App("shop", store=f"sqlite:///{here / 'store.db'}", modules=[outbox])

@app.handler("work", queue="work", attempts=20, backoff="10ms")
async def work(job: Job[int]) -> int:
    (here / f"done-{job.data}").touch()
    return job.data
"""


def test_until_idle_moves_what_is_there_first(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    with closing(sqlite3.connect(tmp_path / "own.db", timeout=30)) as own, own:
        OUTBOX.create(own)
        OUTBOX.add_many(own, [WORK(number) for number in range(50)])
    running = start(tmp_path, "--until-idle", program=tmp_path / "program.py")
    assert running.wait() == 0, running.log()
    assert len(list(tmp_path.glob("done-*"))) == 50


def test_every_committed_job_is_done_through_kills_of_the_workers(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    with closing(sqlite3.connect(tmp_path / "own.db", timeout=30)) as own:
        OUTBOX.create(own)
        own.execute("CREATE TABLE orders (number integer)")
        running = start(tmp_path, "--processes", "2", program=tmp_path / "program.py")
        try:
            until(lambda: len(running.workers()) == 2 and "ready" in running.log(), "two workers")
            for number in range(300):
                with own:
                    own.execute("INSERT INTO orders VALUES (?)", (number,))
                    OUTBOX.add(own, WORK(number))
                    if number % 3 == 2:
                        own.rollback()
                if number % 60 == 30:
                    for worker in running.workers()[:1]:
                        kill(worker)
                time.sleep(0.005)
            orders = {number for (number,) in own.execute("SELECT number FROM orders")}
            assert len(orders) == 200

            def done() -> set[int]:
                return {int(path.name.removeprefix("done-")) for path in tmp_path.glob("done-*")}

            until(lambda: done() >= orders, "all orders done")
            until(lambda: not own.execute("SELECT 1 FROM workfleet_outbox").fetchall(), "an empty outbox")
            assert done() == orders
        finally:
            running.process.send_signal(signal.SIGTERM)
            assert running.wait() == 0, running.log()
