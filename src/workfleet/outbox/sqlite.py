"""The outbox in an application's SQLite file, by the standard library's sqlite3.

A second SQLite library in one process, opening and closing the same file, would drop the locks that the first one holds
there. The application uses sqlite3, so this does, and never the store's library. The journal mode is left as it is, and
nothing stays open between two rounds.

One relay at a time: it holds a lock (flock) on the file's folder from `take` to `finish`. The system frees it when the
process dies, whichever way, and no transaction is open meanwhile that the application would have to wait for."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from workfleet.errors import OutboxUnavailable
from workfleet.ports.clock import Clock

from .rows import Row
from .schema import NEWER, TABLE, VERSION
from .source import Left, Leftovers, Refusal

T = TypeVar("T")
_BUSY_S = 2.0

_TAKE = f"""
SELECT position, id, queue, job FROM {TABLE} WHERE app = ? AND error IS NULL AND v <= {VERSION}
ORDER BY position LIMIT ?
"""
_DELETE = f"DELETE FROM {TABLE} WHERE position = ? AND CAST(id AS blob) = ?"
_MARK = f"UPDATE {TABLE} SET error = ? WHERE position = ?"
_LEFT = f"""
SELECT (SELECT count(*) FROM {TABLE} WHERE app = :app AND error IS NOT NULL),
       (SELECT count(*) FROM {TABLE} WHERE app = :app AND error IS NULL AND v > {VERSION})
"""
_FIND = f"""
SELECT created_ms, v, error, (SELECT count(*) FROM {TABLE} AS other
  WHERE other.app = row.app AND other.error IS NULL AND other.v <= {VERSION} AND other.position < row.position)
FROM {TABLE} AS row WHERE row.app = ? AND CAST(row.id AS blob) = ? ORDER BY position LIMIT 1
"""
_OTHERS = f"SELECT app, count(*) FROM {TABLE} WHERE app <> ? AND error IS NULL AND created_ms < ? GROUP BY app"


class SqliteSource:
    """A `Source`. Its calls run one after the other in a thread of its own."""

    def __init__(self, path: Path, app: str, clock: Clock) -> None:
        self.shown = f"sqlite:///{path.as_posix().lstrip('/')}"
        self._path, self._app, self._clock = path, app, clock
        self._thread: ThreadPoolExecutor | None = None
        self._folder: int | None = None
        """The descriptor that holds the lock."""

    async def take(self, limit: int) -> list[Row]:
        return await self._call(lambda: self._take(limit))

    async def finish(self, moved: Sequence[Row], refused: Sequence[Refusal]) -> None:
        await self._call(lambda: self._finish(moved, refused))

    async def release(self) -> None:
        await self._call(self._release)

    async def leftovers(self, before_ms: int) -> Leftovers:
        return await self._call(lambda: self._leftovers(before_ms))

    async def find(self, job_id: str) -> Left | None:
        return await self._call(lambda: self._find(job_id))

    async def wait(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    async def close(self) -> None:
        """Waits for a call that was given up, which still holds the lock."""
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(thread, self._release)
            thread.shutdown(wait=False)

    async def _call(self, what: Callable[[], T]) -> T:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="workfleet-outbox")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, what)
        except (sqlite3.Error, OSError) as error:
            raise OutboxUnavailable(self.shown, _said(error), _advice(error)) from None

    def _take(self, limit: int) -> list[Row]:
        if not self._lock():
            return []
        try:
            with self._open() as db:
                rows = [Row(*row) for row in map(_bytes, db.execute(_TAKE, (self._app, limit)))]
        except BaseException:
            self._release()
            raise
        if not rows:
            self._release()
        return rows

    def _finish(self, moved: Sequence[Row], refused: Sequence[Refusal]) -> None:
        try:
            with self._open() as db:
                db.execute("BEGIN IMMEDIATE")
                db.executemany(_DELETE, [row.key for row in moved])
                db.executemany(_MARK, [(refusal.reason, refusal.row.position) for refusal in refused])
                db.execute("COMMIT")
        finally:
            self._release()

    def _leftovers(self, before_ms: int) -> Leftovers:
        with self._open() as db:
            refused, newer = db.execute(_LEFT, {"app": self._app}).fetchone()
            others = db.execute(_OTHERS, (self._app, before_ms)).fetchall()
            return Leftovers(refused, newer, {_plain(app).decode(errors="replace"): count for app, count in others})

    def _find(self, job_id: str) -> Left | None:
        with self._open() as db:
            row = db.execute(_FIND, (self._app, job_id.encode())).fetchone()
        if row is None:
            return None
        created_ms, version, error, ahead = row
        if error is not None:
            return Left(ahead, created_ms, _plain(error).decode(errors="replace"))
        return Left(ahead, created_ms, NEWER if version > VERSION else "")

    def _lock(self) -> bool:
        if self._folder is None:
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(folder)
                return False
            except BaseException:
                os.close(folder)
                raise
            self._folder = folder
        return True

    def _release(self) -> None:
        folder, self._folder = self._folder, None
        if folder is not None:
            os.close(folder)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """The file as it is: one that does not exist is not made. Closed, what was not committed is undone."""
        place = f"{self._path.as_uri()}?mode=rw"
        db = sqlite3.connect(place, uri=True, timeout=_BUSY_S, isolation_level=None)
        try:
            # A text that is no UTF-8 would make the whole query fail.
            db.text_factory = bytes
            yield db
        finally:
            db.close()


def _bytes(row: tuple[int, object, object, object]) -> tuple[int, bytes, bytes | None, bytes]:
    """A column may hold a value of any kind, whatever its declared type."""
    position, job_id, queue, job = row
    return position, _plain(job_id), None if queue is None else _plain(queue), _plain(job)


def _plain(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _advice(error: Exception) -> str:
    if "no such table" in str(error):
        return f'Create it with the text of workfleet.outbox.ddl("sqlite"), or with Outbox.create: it is {TABLE}'
    return ""
