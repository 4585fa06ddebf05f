"""What a run has said and the store does not have yet: lines and progress, said in any thread, taken in the event loop.

It is bounded, for code may say more than a store takes. Code that can wait does; else what was said first makes room,
and a line tells of the hole. This file must not know how anything is sent."""

from __future__ import annotations

import asyncio
import threading
from collections import deque

from msgspec import Struct

from workfleet.ids import new_token

from .kept import KeptLines

_MOST_WAITING = 16 * 1024 * 1024
"""Bytes of memory that the lines of one run may take."""
_PATIENCE_S = 10.0
"""How long a thread waits for room, once: the event loop may be waiting for this very thread."""
_BATCH = 1_000


class Batch(Struct, frozen=True):
    """One call to the store. Sent again as it is, because the store knows a repeat by its `call`."""

    call: str
    progress: bytes | None
    lines: list[str]
    lost: int
    """How many lines were lost before its first."""


class Said:
    """`progress` and `lines` may be added from any thread, the rest belongs to the event loop."""

    def __init__(self) -> None:
        self.kept: KeptLines | None = None
        self.progress: deque[bytes] = deque(maxlen=1)
        self.batch: Batch | None = None
        self.sending: asyncio.Task[None] | None = None
        self.woken = False
        self._lines: deque[str] = deque()
        self._size = self._lost = 0
        self._room = threading.Condition(threading.Lock())
        self._moving = True
        """Whether it is worth waiting for room."""

    def add(self, line: str, *, may_wait: bool) -> None:
        """Say a line. Where there is no room a thread without an event loop waits, if `may_wait`."""
        size = line.__sizeof__()
        with self._room:
            if may_wait and self._moving and self._size + size > _MOST_WAITING and not _in_a_loop():
                self._wait_for(size)
            self._lines.append(line)
            self._size += size
            while self._size > _MOST_WAITING:
                self._size -= self._lines.popleft().__sizeof__()
                self._lost += 1

    def _wait_for(self, size: int) -> None:
        came = self._room.wait_for(lambda: not self._moving or self._size + size <= _MOST_WAITING, _PATIENCE_S)
        self._moving = self._moving and came

    def next(self) -> Batch | None:
        """What is to be sent: the batch that was not answered, or a new one."""
        while self.batch is None and (self._lines or self.progress):
            lines, lost = self._taken()
            if self.kept is not None:
                lines = self.kept.those_that_fit(lines)
            if lost:
                lines.insert(0, f"… {lost:,} lines lost: they came faster than the store took them")
            progress = self.progress.popleft() if self.progress else None
            if lines or progress is not None:
                self.batch = Batch(new_token(), progress, lines, lost)
        return self.batch

    def _taken(self) -> tuple[list[str], int]:
        with self._room:
            lines = [self._lines.popleft() for _ in range(min(len(self._lines), _BATCH))]
            self._size -= sum(line.__sizeof__() for line in lines)
            lost, self._lost = self._lost, 0
            self._room.notify_all()
        return lines, lost

    def sent(self) -> None:
        """The store has the batch."""
        self.batch = None
        self._moving = True

    def stuck(self) -> None:
        """The store takes nothing now, or the run is to end: nobody waits for room until `sent`."""
        with self._room:
            self._moving = False
            self._room.notify_all()

    def pending(self) -> bool:
        """Whether there is something to send."""
        return bool(self._lines or self.progress or self.batch)

    def forget(self) -> int:
        """Drop the lines. Returns how many lines the store does not have, as far as is known."""
        with self._room:
            count = len(self._lines) + self._lost
            if self.batch is not None:
                count += len(self.batch.lines) - bool(self.batch.lost) + self.batch.lost
            self._lines.clear()
            self._size = self._lost = 0
        self.batch = None
        return count


def _in_a_loop() -> bool:
    """Whether this thread runs an event loop, which must not stand still."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
