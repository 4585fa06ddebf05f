"""A destination that is a stream of this process, mostly a pipe, a terminal or a socket. Its reader may stand still
(Ctrl-S, `| less`, a stalled collector), and nobody waits for him: lines wait here, as many as there is room for, and a
thread hands them over when he goes on. As long as he reads, a line is with him when it has been said, so that the last
one of a process that dies is, too."""

from __future__ import annotations

import io
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TextIO

from workfleet.events import Event, LogDropped, LogFailed, LogRecovered

from .places import Writing
from .rendering import LogLine, Renderer
from .troubles import Tell, Troubles
from .writers import Writer, has_room, writer_for

MOST_BYTES: Final = 8 * 1024 * 1024
"""What may wait."""
_PATIENCE_S: Final = 0.05
"""How long a line waits for its thread, where only that may write."""
_LOOK_MS: Final = 200
_PAUSE_S: Final = 0.01


class Streamed:
    """Text lines to a stream that has a descriptor."""

    def __init__(
        self,
        name: str,
        stream: TextIO,
        render: Renderer,
        level: int | None,
        tell: Tell,
        monotonic: Callable[[], float],
    ) -> None:
        self.name, self.level = name, level
        self._fd, self._render, self._tell = stream.fileno(), render, tell
        self._writer: Writer | None = None
        self._troubles = Troubles(name, monotonic)
        self._begin()
        _by_lines(stream, self._fd)

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._waiting: deque[bytes] = deque()
        """The first one is being written."""
        self._bytes = self._dropped = 0
        self._writing = Writing()
        self._thread: threading.Thread | None = None
        self._closing = self._closed = False

    @property
    def failing(self) -> bool:
        return self._troubles.failing

    def take(self, line: LogLine) -> None:
        data = f"{self._render(line)}\n".encode(errors="backslashreplace")
        self._look_for_fork()
        with self._lock:
            if self._closed:
                return
            told = self._queue(data) if self._waiting else self._write(data)
        if told is not None:
            self._tell(told)

    def close(self, timeout_s: float) -> None:
        """Lines that wait are written within the time; the rest is told as lost."""
        self._look_for_fork()
        with self._lock:
            self._closing = True
            self._changed.notify_all()
            thread = self._thread
            if thread is None:
                self._end()
        if thread is not None:
            thread.join(timeout_s)
        with self._lock:
            self._closed = True
            lost = len(self._waiting) + self._dropped
        if not lost:
            return
        error = f"its reader had not taken them {timeout_s:g} s after the end"
        self._tell(LogFailed(destination=self.name, error=error, lost=lost))

    def _look_for_fork(self) -> None:
        """A forked process has no such thread, and its parent writes what waits."""
        if os.getpid() != self._pid:
            self._begin()

    def _write(self, data: bytes) -> Event | None:
        """Write it now, as far as that is possible without waiting."""
        try:
            writer = self._current()
            if writer.blocks:
                self._wait(data)
                self._changed.wait_for(lambda: not self._waiting, _PATIENCE_S)
                return None
            left = self._writing.write(writer.write, data)
        except OSError as error:
            return self._troubles.failed(error)
        if left:
            self._wait(left)
        return self._troubles.worked()

    def _queue(self, data: bytes) -> Event | None:
        # Once one is dropped all are until he has taken what waits, so that there is one gap, and it is told there.
        if not self._dropped and self._bytes + len(data) <= MOST_BYTES:
            self._wait(data)
            return None
        self._dropped += 1
        return LogDropped(destination=self.name, waiting=len(self._waiting)) if self._dropped == 1 else None

    def _wait(self, data: bytes) -> None:
        self._waiting.append(data)
        self._bytes += len(data)
        if self._thread is None:
            thread = threading.Thread(target=self._serve, name=f"workfleet-log-{self.name}", daemon=True)
            with suppress(RuntimeError):  # no further one can be started: the next line tries again
                thread.start()
                self._thread = thread
        self._changed.notify_all()

    def _serve(self) -> None:
        while (data := self._next()) is not None:
            told = self._hand_over(data)
            if told is not None:
                self._tell(told)

    def _next(self) -> bytes | None:
        with self._lock:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            if self._waiting and not self._closed:
                return self._waiting[0]
            self._end()
            return None

    def _hand_over(self, data: bytes) -> Event | None:
        failed: OSError | None = None
        try:
            self._writing.write(self._patiently, data)
        except OSError as error:
            failed = error
        with self._lock:
            if self._closed:  # it was told as lost
                return None
            self._waiting.popleft()
            self._bytes -= len(data)
            if not self._waiting:
                self._changed.notify_all()
            return self._after(failed)

    def _after(self, failed: OSError | None) -> Event | None:
        """What there is to tell when the first of those that wait was written, or was not."""
        told = self._troubles.worked() if failed is None else self._troubles.failed(failed)
        if self._waiting or not self._dropped:
            return told
        lost, self._dropped = self._dropped, 0
        if isinstance(told, LogRecovered):
            lost += told.lost
        if failed is not None:
            self._troubles.lost += lost
            return told
        return LogRecovered(destination=self.name, lost=lost)

    def _patiently(self, data: memoryview) -> int:
        """Wait for the reader, as long as somebody wants to write to him."""
        while not self._closed:
            try:
                return self._current().write(data)
            except BlockingIOError:
                if has_room(self._fd, _LOOK_MS):  # a terminal may say so, and have too little of it
                    with self._lock:
                        self._changed.wait_for(lambda: self._closed, _PAUSE_S)
        raise TimeoutError

    def _current(self) -> Writer:
        writer = self._writer
        if writer is None or not writer.leads_to(self._fd):
            self._let_go()
            writer = self._writer = writer_for(self._fd)
        return writer

    def _end(self) -> None:
        self._closed = True
        self._let_go()

    def _let_go(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


def _by_lines(stream: TextIO, fd: int) -> None:
    """What others print to it stays in its order: each printed line goes at once. To make them go with each of ours
    would be to wait, since whoever prints holds the stream's lock until the reader has taken it."""
    if isinstance(stream, io.TextIOWrapper) and has_room(fd):
        with suppress(OSError, ValueError):  # a line that is said will fail as well, and is told
            stream.flush()
            if not (stream.line_buffering or stream.write_through):
                stream.reconfigure(line_buffering=True)
