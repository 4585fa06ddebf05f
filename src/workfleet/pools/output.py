"""What a child prints: handed on line by line within a budget, and the last of it kept. Knows descriptors, no children.

A line costs the worker far more than the child that prints it. So a child has a budget of lines a second; what is
beyond is read and counted, but not handed on, and the number is. Every read is small, one a tick of the loop, so that
other children and connections have their turn.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Final, Literal

Stream = Literal["stdout", "stderr"]
OnOutput = Callable[[str, Stream, int], None]
"""Called with a line without its end, the stream and the child's pid."""

KEPT: Final = 1 << 16
LINES_A_SECOND: Final = 1_000
_LONGEST_LINE: Final = 1 << 14
_CHUNK: Final = 1 << 13
_CHUNK_LEFT_OUT: Final = 1 << 16
_LAST_CHUNKS: Final = 16


class Budget:
    """How many lines of one child are handed on within a second of the first of them."""

    def __init__(self, lines: int = LINES_A_SECOND, seconds: float = 1.0) -> None:
        self.lines = self.left = lines
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._renewal: asyncio.TimerHandle | None = None
        self._spenders: list[Callable[[], None]] = []

    def join(self, renewed: Callable[[], None]) -> None:
        self._spenders.append(renewed)

    def leave(self, renewed: Callable[[], None]) -> None:
        self._spenders.remove(renewed)
        if not self._spenders and self._renewal is not None:
            self._renewal.cancel()

    def take(self) -> bool:
        """Whether one more line may be handed on."""
        if self._renewal is None:
            self._renewal = self._loop.call_later(self._seconds, self._renew)
        if not self.left:
            return False
        self.left -= 1
        return True

    def _renew(self) -> None:
        self.left, self._renewal = self.lines, None
        for renewed in self._spenders:
            renewed()


class Output:
    """One of a child's output streams, read to its end. `ended` is done when every writer has closed it."""

    def __init__(self, fd: int, stream: Stream, pid: int, on_output: OnOutput | None, budget: Budget) -> None:
        self._fd = fd
        self._stream = stream
        self._pid = pid
        self._on_output = on_output
        self._budget = budget
        self._begun = b""
        self._left_out = 0
        self._leaving_out = False
        self._tail = bytearray()
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._readable)
        budget.join(self._tell_left_out)

    def tail(self) -> str:
        """The last 64 KB."""
        return self._tail[-KEPT:].decode(errors="replace")

    def close(self) -> None:
        """Reads what is there and stops, whoever may still hold the other end."""
        # At most so much: a descendant that writes for ever must not hold up who is only tidying away a dead child.
        for _ in range(_LAST_CHUNKS):
            if self.ended.done() or not self._readable():
                break
        if not self.ended.done():
            self._end()

    def _readable(self) -> bool:
        try:
            data = os.read(self._fd, _CHUNK if self._budget.left else _CHUNK_LEFT_OUT)
        except BlockingIOError:
            return False
        if data:
            self._take(data)
        else:
            self._end()
        return True

    def _take(self, data: bytes) -> None:
        self._tail += data
        if len(self._tail) > 4 * KEPT:
            del self._tail[:-KEPT]
        if self._on_output is None:
            return
        if self._leaving_out:  # the rest of a line that was counted already
            _, end, data = data.partition(b"\n")
            self._leaving_out = not end
        if not self._budget.left:
            self._leave_out(self._begun + data)
            return
        *lines, self._begun = (self._begun + data).split(b"\n")
        if len(self._begun) > _LONGEST_LINE:
            lines.append(self._begun)
            self._begun = b""
        for line in lines:
            self._tell(line)

    def _leave_out(self, data: bytes) -> None:
        self._begun = b""
        self._left_out += data.count(b"\n")
        if data and not data.endswith(b"\n"):
            self._left_out += 1
            self._leaving_out = True

    def _tell(self, line: bytes) -> None:
        if self._on_output is None:
            return
        if self._budget.take():
            self._on_output(line.decode(errors="replace").rstrip("\r"), self._stream, self._pid)
        else:
            self._left_out += 1

    def _tell_left_out(self) -> None:
        left_out, self._left_out = self._left_out, 0
        if left_out and self._on_output is not None:
            limit = f"more than {self._budget.lines:,} a second"
            self._on_output(f"… {left_out:,} lines left out: {limit}", self._stream, self._pid)

    def _end(self) -> None:
        self._loop.remove_reader(self._fd)
        self._budget.leave(self._tell_left_out)
        if self._begun:
            self._tell(self._begun)
            self._begun = b""
        self._tell_left_out()
        self.ended.set_result(None)
