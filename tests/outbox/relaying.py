"""A process with one relay: `python -m tests.outbox.relaying DATABASE STORE BATCH [DIE]`.

It says "serving", works until SIGTERM, and says what it did as JSON. DIE is where it kills itself with SIGKILL:
"before-enqueue", "after-enqueue" (the store has committed), "in-finish" (deleted, not committed) or "after-finish"."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.outbox.database import APP, Postgres, Sqlite
from workfleet.clock import SystemClock
from workfleet.events import Event, JobEnqueued
from workfleet.model.jobs import Enqueued, JobRecord
from workfleet.outbox.relay import Relay
from workfleet.outbox.rows import Row
from workfleet.outbox.source import Refusal, Source
from workfleet.stores.open import open_store


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Watched:
    """The store's `enqueue`, watched."""

    def __init__(self, jobs: Any, dies: str) -> None:
        self._jobs, self._dies = jobs, dies
        self.ordered = True

    async def enqueue(self, jobs: Sequence[JobRecord], *, call: str | None = None) -> list[Enqueued]:
        numbers = [int(job.payload) for job in jobs]
        self.ordered = self.ordered and numbers == sorted(numbers)
        if self._dies == "before-enqueue":
            die()
        answers: list[Enqueued] = await self._jobs.enqueue(jobs, call=call)
        if self._dies == "after-enqueue":
            die()
        return answers


class Deadly:
    """A source that kills the process around `finish`."""

    def __init__(self, source: Source, dies: str) -> None:
        self._source, self._dies = source, dies

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    async def finish(self, moved: Sequence[Row], refused: Sequence[Refusal]) -> None:
        if self._dies == "in-finish":
            die_at_commit()
        await self._source.finish(moved, refused)
        if self._dies == "after-finish":
            die()


def die_at_commit() -> None:
    """Both libraries delete, and are killed instead of committing."""
    import psycopg

    from workfleet.outbox import sqlite

    async def commit(_self: object) -> None:
        die()

    class Connection(sqlite.sqlite3.Connection):
        def execute(self, sql: str, *parameters: Any) -> Any:
            if sql == "COMMIT":
                die()
            return super().execute(sql, *parameters)

    psycopg.AsyncConnection.commit = commit  # type: ignore[method-assign,assignment]
    connect = sqlite.sqlite3.connect
    sqlite.sqlite3.connect = lambda *a, **k: connect(*a, factory=Connection, **k)  # type: ignore[attr-defined]


async def main(url: str, store_url: str, batch: int, dies: str = "") -> None:
    store = await open_store(store_url, app=APP, clock=SystemClock(), create=True)
    database = Sqlite(Path(url.removeprefix("sqlite://"))) if url.startswith("sqlite") else Postgres(url)
    jobs = Watched(store.jobs, dies)
    source = Deadly(database.source(), dies)
    created = 0

    def hear(event: Event) -> None:
        nonlocal created
        created += isinstance(event, JobEnqueued) and event.created

    relay = Relay(
        source,
        jobs,  # type: ignore[arg-type]
        default_queue="default",
        poll_ms=100,
        batch=batch,
        clock=SystemClock(),
        publish=hear,
    )
    task = asyncio.create_task(relay.serve())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    print("serving", flush=True)
    await asyncio.wait([task])
    await store.close()
    print(json.dumps({"moved": relay.total, "created": created, "ordered": jobs.ordered}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:]))
