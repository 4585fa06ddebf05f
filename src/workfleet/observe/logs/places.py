"""Where text lines go: a stream of this process, or a file that several processes write to. Each line is one write."""

from __future__ import annotations

import os
import select
from pathlib import Path
from typing import Protocol, TextIO

_PATIENCE_S = 0.05
"""How long a line waits for a reader of a pipe that is full and does not block."""


class Place(Protocol):
    """Takes bytes that end a line. Raises OSError or ValueError where it cannot."""

    def put(self, data: bytes) -> None: ...
    def is_terminal(self) -> bool: ...
    def close(self) -> None: ...


class _Writing:
    """One write a line, and further ones only for what that did not take. A line that was left without its end is ended
    before the next one."""

    def __init__(self) -> None:
        self._torn = False

    def write(self, fd: int, data: bytes) -> None:
        """Raises OSError."""
        whole = b"\n" + data if self._torn else data
        left = memoryview(whole)
        try:
            while left:
                try:
                    left = left[os.write(fd, left) :]
                except BlockingIOError:
                    if not select.select([], [fd], [], _PATIENCE_S)[1]:
                        raise
        finally:
            if len(left) < len(whole):
                self._torn = bool(left)


class StreamPlace:
    """A stream that is open: what others print to it stays in its order."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._fd = _descriptor(stream)
        self._writing = _Writing()

    def put(self, data: bytes) -> None:
        if self._fd is None:
            self._stream.write(data.decode())
            self._stream.flush()
            return
        self._stream.flush()
        self._writing.write(self._fd, data)

    def is_terminal(self) -> bool:
        return self._stream.isatty()

    def close(self) -> None:
        """It is not ours."""


class PipePlace:
    """A descriptor of its own for what this process has as another one, so that whoever redirects that one does not
    redirect this."""

    def __init__(self, fd: int) -> None:
        self._fd = os.dup(fd)
        self._writing = _Writing()

    def put(self, data: bytes) -> None:
        self._writing.write(self._fd, data)

    def is_terminal(self) -> bool:
        return False

    def close(self) -> None:
        os.close(self._fd)


class FilePlace:
    """A file, opened for appending, so that processes which share it do not write into each other's lines. One that was
    moved or deleted (logrotate) is opened anew."""

    def __init__(self, path: Path) -> None:
        """Raises OSError where it cannot be opened."""
        self._path = path
        self._writing = _Writing()
        self._fd: int | None = None
        self._open()

    def put(self, data: bytes) -> None:
        if self._fd is None or not self._is_there(self._fd):
            self.close()
            self._open()
        assert self._fd is not None
        self._writing.write(self._fd, data)

    def is_terminal(self) -> bool:
        return self._fd is not None and os.isatty(self._fd)

    def close(self) -> None:
        if self._fd is not None:
            fd, self._fd = self._fd, None
            os.close(fd)

    def _open(self) -> None:
        self._fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY, 0o666)

    def _is_there(self, fd: int) -> bool:
        try:
            named = os.stat(self._path)
        except FileNotFoundError:
            return False
        return os.path.samestat(named, os.fstat(fd))


def unwritable(path: Path) -> str | None:
    """Why a file cannot be written to, found without making it; None: it can."""
    if path.is_dir():
        return "it is a folder"
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}: make it"
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        return "it may not be written to"
    return None


def _descriptor(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (AttributeError, OSError, ValueError):  # a stream in memory
        return None
