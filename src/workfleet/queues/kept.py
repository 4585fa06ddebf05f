"""How much a job keeps of what its code has logged: what comes first, up to so many lines and so many bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from workfleet.model.jobs import JobRecord
from workfleet.ports.jobs import JobStore


class MostKept(Struct, frozen=True):
    """Of one job, with all its runs."""

    lines: int
    bytes: int


MOST_KEPT: Final = MostKept(1_000, 256 * 1024)


class _Kept(str):
    """A line that was logged; what is said with `job.log` is none of these."""

    __slots__ = ()


class KeptLines:
    """What one run may still keep. Lines are taken from any thread, and looked at in the event loop."""

    def __init__(self, record: JobRecord, most: MostKept) -> None:
        self._job, self._queue, self._most = record.id, record.queue, most
        self._lines = self._bytes = 0
        self._full = False
        # Earlier runs have written, too. Of a first run nobody has to ask the store.
        self._unknown = bool(record.history or record.attempts_made or record.crashes)
        self._room = most
        self._kept_some = self._over = False

    def taken(self, text: str) -> str | None:
        """The line as it is to be kept; None: there was no room for the one before."""
        if self._full:
            return None
        self._lines += 1
        self._bytes += len(text.encode())
        self._full = self._lines > self._most.lines or self._bytes > self._most.bytes
        return _Kept(text)

    async def look(self, jobs: JobStore) -> None:
        """See what earlier runs have left. Raises `StoreUnavailable`."""
        if not self._unknown:
            return
        there = await jobs.logs(self._job, queue=self._queue)
        lines, size = self._most.lines - len(there), self._most.bytes - sum(len(line.encode()) for line in there)
        self._room, self._unknown = MostKept(max(lines, 0), max(size, 0)), False

    def those_that_fit(self, lines: Sequence[str]) -> list[str]:
        """Lines without what there is no room for; one says so, after those of the run that there was room for."""
        kept: list[str] = []
        for line in lines:
            if not isinstance(line, _Kept) or self._fits(line):
                kept.append(line)
            elif not self._over:
                self._over = True
                if self._kept_some:
                    most = f"{self._most.lines:,} lines or {self._most.bytes:,} bytes"
                    kept.append(f"… more than {most}: the rest is in the log only")
        return kept

    def _fits(self, line: str) -> bool:
        room, size = self._room, len(line.encode())
        if self._over or room.lines < 1 or room.bytes < size:
            return False
        self._room, self._kept_some = MostKept(room.lines - 1, room.bytes - size), True
        return True
