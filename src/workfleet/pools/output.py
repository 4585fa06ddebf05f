"""What a child prints: handed on line by line, and the last of it kept. Knows descriptors, not children."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Final, Literal

Stream = Literal["stdout", "stderr"]
OnOutput = Callable[[str, Stream, int], None]
"""Called with a line without its end, the stream and the child's pid."""

KEPT: Final = 1 << 16
_LONGEST_LINE: Final = 1 << 14
_CHUNK: Final = 1 << 16
_LAST_CHUNKS: Final = 16


class Output:
    """One of a child's output streams, read to its end. `ended` is done when every writer has closed it."""

    def __init__(self, fd: int, stream: Stream, pid: int, on_output: OnOutput | None) -> None:
        self._fd = fd
        self._stream = stream
        self._pid = pid
        self._on_output = on_output
        self._begun = b""
        self._tail = bytearray()
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._readable)

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
            data = os.read(self._fd, _CHUNK)
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
        *lines, self._begun = (self._begun + data).split(b"\n")
        if len(self._begun) > _LONGEST_LINE:
            lines.append(self._begun)
            self._begun = b""
        for line in lines:
            self._tell(line)

    def _tell(self, line: bytes) -> None:
        if self._on_output is not None:
            self._on_output(line.decode(errors="replace").rstrip("\r"), self._stream, self._pid)

    def _end(self) -> None:
        self._loop.remove_reader(self._fd)
        if self._begun:
            self._tell(self._begun)
            self._begun = b""
        self.ended.set_result(None)
