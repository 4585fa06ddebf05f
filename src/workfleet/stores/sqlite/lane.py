"""One thread with one connection: whole operations hop to it, and those that wait together share a transaction.

Group commit: each operation runs in a savepoint of its own, so that one that fails takes nothing else with it, and the
answers are given when the transaction is on disk. This file knows no table.
"""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Literal, TypeVar

import apsw

from workfleet.errors import StoreUnavailable
from workfleet.ports.clock import Clock

from .connect import Database
from .trouble import is_trouble, sqlite_url, unavailable, unforeseen

_T = TypeVar("_T")
_TOGETHER = 200
_CHUNKS = (64, 16, 4, 1)
"""Rows in one INSERT: few sizes, so that all of them stay prepared."""
_BROKEN = (apsw.IOError, apsw.CorruptError, apsw.NotADBError, apsw.CantOpenError, apsw.ReadOnlyError, apsw.SQLError)
"""After these a new connection is made: the file may be another one, or mended."""

Row = tuple[Any, ...]
Held = tuple[int, int | None, int]
"""Where a job is, which claim settled it before, and (not 0) whether others may wait for its unique key."""
Note = tuple[int, int]
"""A claim's number, and since when its note is kept."""


@dataclass
class Memo:
    """What a connection remembers of committed rows, to save look-ups. Forgotten whenever something is rolled back."""

    queues: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Queue numbers, and which kind of jobs the queue has had, by name."""
    held: dict[str, Held] = field(default_factory=dict)
    """Where the jobs are that this connection handed out, by id."""
    notes: dict[str, Note] = field(default_factory=dict)
    """The claims that it handed out, by token."""
    numbers: range = range(0)
    """Numbers of claims that are nobody else's."""


@dataclass
class Step:
    """What an operation works with: the connection in a transaction, the store's time, and whom to wake after it."""

    db: apsw.Connection
    cursor: apsw.Cursor
    now: int
    memo: Memo
    topics: set[str] = field(default_factory=set)

    def rows(self, sql: str, *values: Any) -> list[Row]:
        return self.cursor.execute(sql, values).fetchall()

    def row(self, sql: str, *values: Any) -> Row | None:
        """The first row, None when there is none."""
        return next(iter(self.rows(sql, *values)), None)

    def change(self, sql: str, *values: Any) -> int:
        """Run a statement that changes rows. Returns how many."""
        self.cursor.execute(sql, values)
        return self.db.changes()

    def insert(self, into: str, rows: Sequence[Row]) -> int:
        """Run `INSERT … VALUES` for rows of equal length, many at a time. Returns how many rows were inserted."""
        before, done = self.db.total_changes(), 0
        for size in _CHUNKS:
            while len(rows) - done >= size:
                values = [value for row in rows[done : done + size] for value in row]
                self.cursor.execute(f"{into} VALUES {_places(len(rows[0]), size)}", values)
                done += size
        return self.db.total_changes() - before

    def change_many(self, sql: str, rows: Sequence[Row]) -> int:
        """Run a statement once for each row of values. Returns how many rows were changed in all."""
        before = self.db.total_changes()
        self.cursor.executemany(sql, rows)
        return self.db.total_changes() - before


@lru_cache(128)
def _places(width: int, count: int) -> str:
    row = f"({', '.join('?' * width)})"
    return ", ".join([row] * count)


@dataclass
class _Call:
    operation: Callable[[Step], Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    answer: Any = None
    error: Exception | None = None
    topics: set[str] = field(default_factory=set)


class Lane:
    """Runs operations in its thread. `after` is called there with the topics of what was committed."""

    def __init__(
        self,
        path: Path,
        connect: Callable[[], Database],
        *,
        kind: Literal["write", "read"],
        clock: Clock,
        after: Callable[[set[str]], None] = lambda _: None,
    ) -> None:
        self._path, self._connect, self._clock, self._after = path, connect, clock, after
        self._begin = "BEGIN IMMEDIATE" if kind == "write" else "BEGIN"
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._database: Database | None = None
        self._memo = Memo()
        self._closed = self._deaf = False
        self._thread = threading.Thread(target=self._work, name=f"workfleet-sqlite-{kind}", daemon=True)
        self._thread.start()

    async def run(self, operation: Callable[[Step], _T]) -> _T:
        """Run an operation as one atomic step, and return what it returns.

        It may be run again when a transaction fails, so it must change nothing but what its step gives it. Raises
        `StoreUnavailable`, and what the operation raises.
        """
        if self._closed:
            raise StoreUnavailable(sqlite_url(self._path), "it is closed")
        loop = asyncio.get_running_loop()
        call = _Call(operation, loop, loop.create_future())
        self._calls.put(call)
        answer: _T = await call.future
        return answer

    async def close(self) -> None:
        """Finish what waits, and end the thread."""
        if self.end():
            await asyncio.to_thread(self._thread.join)

    def end(self) -> bool:
        """The same, without waiting for it. False: it was told so before."""
        if self._closed:
            return False
        self._closed = True
        self._calls.put(None)
        return True

    def _work(self) -> None:
        while (batch := self._next_batch()) is not None:
            if batch:
                self._serve(batch)
                self._answer(batch)
        self._disconnect()

    def _next_batch(self) -> list[_Call] | None:
        """Everything that waits, but at least one call; None at the end."""
        call = self._calls.get()
        batch: list[_Call] = []
        while call is not None:
            # A caller that was cancelled wants no claim that nobody would work on.
            if not call.future.cancelled():
                batch.append(call)
            if len(batch) == _TOGETHER:
                return batch
            try:
                call = self._calls.get_nowait()
            except Empty:
                return batch
        if not batch:
            return None
        self._calls.put(None)
        return batch

    def _serve(self, batch: list[_Call]) -> None:
        try:
            database = self._connected()
            self._commit(database, batch)
        except StoreUnavailable as error:
            self._fail(batch, error)
        except apsw.Error as error:
            self._recover(error)
            if len(batch) > 1 and not isinstance(error, apsw.BusyError):
                # One of them may have been too much for the disk: each gets its own chance.
                for call in batch:
                    self._serve([call])
            else:
                self._fail(batch, unavailable(self._path, error) if is_trouble(error) else error)
        except Exception as error:  # noqa: BLE001 - the boundary: with the thread, all who come later would be lost too
            self._disconnect()
            self._fail(batch, unforeseen(self._path, error))

    def _connected(self) -> Database:
        if self._database is None:
            self._database = self._connect()
        try:
            self._database.check()
        except StoreUnavailable:
            self._disconnect()
            raise
        return self._database

    def _commit(self, database: Database, batch: list[_Call]) -> None:
        db = database.db
        db.execute(self._begin)
        try:
            database.check_version()
        except StoreUnavailable:
            db.execute("ROLLBACK")
            raise
        for call in batch:
            self._run(db, call, alone=len(batch) == 1)
        db.execute("COMMIT")
        topics = set[str]().union(*(call.topics for call in batch if call.error is None))
        if topics:
            self._tell(topics)

    def _tell(self, topics: set[str]) -> None:
        try:
            self._after(topics)
        except Exception as error:  # noqa: BLE001 - the boundary: what is committed stays so, and polls find it
            if not self._deaf:
                self._deaf = True
                url = sqlite_url(self._path)
                text = f"{url}: other processes find changes by polling, for they cannot be woken: {error}"
                with suppress(RuntimeWarning):  # where warnings are errors
                    warnings.warn(text, RuntimeWarning, stacklevel=2)

    def _run(self, db: apsw.Connection, call: _Call, *, alone: bool) -> None:
        call.answer = call.error = None
        step = Step(db, db.cursor(), self._clock.now_ms(), self._memo)
        if not alone:
            db.execute("SAVEPOINT call")
        try:
            call.answer, call.topics = call.operation(step), step.topics
        except apsw.Error as error:
            if alone or not db.in_transaction:
                raise
            call.error = unavailable(self._path, error) if is_trouble(error) else error
        except Exception as error:  # noqa: BLE001 - the boundary: what an operation raises is its own caller's
            call.error = error
        if call.error is not None:
            self._memo = Memo()
            db.execute("ROLLBACK" if alone else "ROLLBACK TO call")
            if alone:
                db.execute(self._begin)
        if not alone:
            db.execute("RELEASE call")

    def _recover(self, error: apsw.Error) -> None:
        self._memo = Memo()
        database = self._database
        if database is None:
            return
        try:
            if database.db.in_transaction:
                database.db.execute("ROLLBACK")
        except apsw.Error:
            self._disconnect()
        if isinstance(error, _BROKEN):
            self._disconnect()

    def _disconnect(self) -> None:
        self._memo = Memo()
        if self._database is not None:
            try:
                self._database.db.close()
            except apsw.Error:
                pass  # a file that is gone cannot be closed well, and there is nothing left to do about it
            self._database = None

    def _fail(self, batch: list[_Call], error: Exception) -> None:
        for call in batch:
            call.error = error

    def _answer(self, batch: list[_Call]) -> None:
        """One hop to each event loop, with all its answers."""
        for loop in {call.loop for call in batch}:
            try:
                loop.call_soon_threadsafe(_resolve, [call for call in batch if call.loop is loop])
            except RuntimeError:
                pass  # the loop is closed: nobody is there to be told


def _resolve(calls: list[_Call]) -> None:
    for call in calls:
        if call.future.done():
            continue
        if call.error is not None:
            call.future.set_exception(call.error)
        else:
            call.future.set_result(call.answer)
