"""What an application writes jobs with: `Outbox` through asynchronous connections, `SyncOutbox` through others.

Neither opens a connection, begins a transaction or ends one: that is the caller's, and so is whether a job exists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from workfleet.clock import SystemClock
from workfleet.enqueueing import Enqueueing
from workfleet.model.jobtypes import NewJob
from workfleet.model.names import plain_name
from workfleet.observe.trace import current_trace
from workfleet.outbox.drivers import async_target, sync_target
from workfleet.outbox.drivers.target import AsyncConnection, Parameters, SyncConnection
from workfleet.outbox.rows import NewRow, written
from workfleet.outbox.schema import ROWS_A_STATEMENT, Dialect, Style, insert, statements

_CHECKED_AS = "worker-default"


class Outbox:
    """`await outbox.add(connection, WELCOME(Welcome(7)))`: the job exists when the connection's transaction commits.

    `app` is the application's name, as the workers' `App` has it. Connections are those of aiosqlite, psycopg, asyncpg
    and SQLAlchemy; each method raises TypeError for others."""

    def __init__(self, app: str) -> None:
        self._jobs = _Jobs(app)

    async def create(self, connection: AsyncConnection) -> None:
        """Create the table where it is not there. `workfleet.outbox.ddl` has the text for migrations."""
        target = async_target(connection)
        for statement in statements(target.dialect):
            await target.run(statement, ())

    async def add(self, connection: AsyncConnection, job: NewJob[Any]) -> str:
        """Write a job. Returns its id, which stays: `client.ref(id)` finds it once it is moved.

        Payload and options are checked now: raises `PayloadRejected` and `UsageError`, and what the database raises."""
        (job_id,) = await self.add_many(connection, [job])
        return job_id

    async def add_many(self, connection: AsyncConnection, jobs: Iterable[NewJob[Any]]) -> list[str]:
        """Write many jobs, in their order; all are checked before the first is written. Errors as `add`."""
        target, rows = async_target(connection), self._jobs.rows(jobs)
        for sql, parameters in _inserts(rows, target.dialect, target.style):
            await target.run(sql, parameters)
        return [row.id for row in rows]


class SyncOutbox:
    """`outbox.add(connection, WELCOME(Welcome(7)))`, for Django, Flask and scripts: no event loop, no thread.

    As `Outbox`, through connections of sqlite3, psycopg, SQLAlchemy and Django."""

    def __init__(self, app: str) -> None:
        self._jobs = _Jobs(app)

    def create(self, connection: SyncConnection) -> None:
        """Create the table where it is not there."""
        target = sync_target(connection)
        for statement in statements(target.dialect):
            target.run(statement, ())

    def add(self, connection: SyncConnection, job: NewJob[Any]) -> str:
        """Write a job; returns its id. Errors as `Outbox.add`."""
        (job_id,) = self.add_many(connection, [job])
        return job_id

    def add_many(self, connection: SyncConnection, jobs: Iterable[NewJob[Any]]) -> list[str]:
        """Write many jobs, in their order; all are checked before the first is written."""
        target, rows = sync_target(connection), self._jobs.rows(jobs)
        for sql, parameters in _inserts(rows, target.dialect, target.style):
            target.run(sql, parameters)
        return [row.id for row in rows]


class _Jobs:
    """From jobs to rows, for both."""

    def __init__(self, app: str) -> None:
        self._app = plain_name("app", app)
        self._now_ms = SystemClock().now_ms
        self._enqueueing = Enqueueing(_CHECKED_AS, self._now_ms, trace=current_trace)

    def rows(self, jobs: Iterable[NewJob[Any]]) -> list[NewRow]:
        return [self._row(job) for job in jobs]

    def _row(self, job: NewJob[Any]) -> NewRow:
        record = self._enqueueing.record(job)
        # Which queue is the default one, the workers' settings say, not this process's.
        named = job.options.get("queue") or job.type.queue
        return written(self._app, record, self._now_ms(), queue=record.queue if named else None)


def _inserts(rows: Sequence[NewRow], dialect: Dialect, style: Style) -> Iterator[tuple[str, Parameters]]:
    left = iter(rows)
    while batch := list(islice(left, ROWS_A_STATEMENT)):
        values = tuple(value for row in batch for value in row.parameters())
        yield insert(dialect, style, len(batch)), (values if dialect == "sqlite" else (*values, batch[0].app))
