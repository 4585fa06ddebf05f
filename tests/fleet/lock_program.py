"""The application of the tests of paused lock holders: a resource that checks fences, and two ways to hold its lock."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from workfleet import App, Job, LockLost, LockModule, Locks, RedisModule

HERE = Path(os.environ.get("TEST_FOLDER", "."))
TTL = os.environ.get("TEST_TTL", "5s")
ELSEWHERE = os.environ.get("TEST_LOCKS")
app = App("locking", modules=[RedisModule(clients={"lock": ELSEWHERE}), LockModule(client="lock")] if ELSEWHERE else [])


class Ledger:
    """A resource that takes no write with a smaller fence than the greatest it has seen."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "ledger.db"

    def write(self, fence: int, who: str) -> bool:
        """Whether it was taken."""
        with closing(sqlite3.connect(self._file, timeout=30, isolation_level=None)) as db:
            db.execute("create table if not exists entry (fence integer, who text)")
            taken = db.execute(
                "insert into entry select ?, ? where ? >= (select coalesce(max(fence), 0) from entry)",
                (fence, who, fence),
            )
            return taken.rowcount == 1

    def written(self) -> list[str]:
        with closing(sqlite3.connect(self._file, timeout=30)) as db:
            return [who for (who,) in db.execute("select who from entry order by rowid")]


def note(name: str, text: str) -> None:
    (HERE / f"{name}.new").write_text(text)
    (HERE / f"{name}.new").rename(HERE / name)


def _renewed_by_others_ms(lock: Any) -> int:
    found: int = lock._board.renewed_ms(lock._slot)
    return found


@app.handler("awaits", queue="work", attempts=1)
async def awaits(job: Job[None], locks: Locks) -> None:
    async with locks.lock("ledger", ttl=TTL) as lock:
        assert Ledger(HERE).write(lock.fence, "holder")
        note("held", str(lock.fence))
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            note("told", "cancelled")
            note("late write", str(Ledger(HERE).write(lock.fence, "late")))
            raise


@app.handler("blocks", queue="work", attempts=1)
async def blocks(job: Job[None], locks: Locks) -> None:
    async with locks.lock("ledger", ttl=TTL) as lock:
        assert Ledger(HERE).write(lock.fence, "holder")
        noted_ms = _renewed_by_others_ms(lock)
        while _renewed_by_others_ms(lock) == noted_ms:
            await asyncio.sleep(0.05)  # the supervisor has only just started as well
        note("held", str(lock.fence))
        try:
            while True:
                lock.check()
                time.sleep(0.01)  # the loop never gets its turn
        except LockLost:
            note("told", "check")
            note("late write", str(Ledger(HERE).write(lock.fence, "late")))
            raise
