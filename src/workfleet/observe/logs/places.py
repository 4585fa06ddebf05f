"""Where text lines go: a file that several processes write to, a pipe to a parent, a stream in memory. Each line is one
write."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol, TextIO

from .writers import Write, has_room

_PATIENCE_MS = 50
"""How long a line waits for a reader of a pipe that is full and does not block."""


class Place(Protocol):
    """Takes bytes that end a line. Raises OSError or ValueError where it cannot."""

    def put(self, data: bytes) -> None: ...
    def close(self) -> None: ...


class Writing:
    """One write a line, and further ones only for what that did not take. A line that was left without its end is ended
    before the next one."""

    def __init__(self) -> None:
        self._torn = False

    def write(self, write: Write, data: bytes) -> bytes:
        """Returns what would have to wait: whoever called goes on with it. Raises OSError for what fails."""
        whole = b"\n" + data if self._torn else data
        left = memoryview(whole)
        try:
            while left:
                left = left[write(left) :]
        except BlockingIOError:
            pass
        except OSError:
            self._torn = self._torn if len(left) == len(whole) else True
            raise
        self._torn = False
        return bytes(left)


class _Descriptor:
    """A descriptor of our own that may not block: then a line waits a moment for a reader, and those that follow it do
    not, until one gets through."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._patient = True

    def write(self, data: memoryview) -> int:
        """Raises OSError."""
        try:
            taken = os.write(self.fd, data)
        except BlockingIOError:
            if not (self._patient and has_room(self.fd, _PATIENCE_MS)):
                self._patient = False
                raise TimeoutError("nobody reads it") from None
            return 0
        self._patient = True
        return taken


class StreamPlace:
    """A stream in memory."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def put(self, data: bytes) -> None:
        self._stream.write(data.decode())
        self._stream.flush()

    def close(self) -> None:
        """It is not ours."""


class PipePlace:
    """A descriptor of its own for what this process has as another one, so that whoever redirects that one does not
    redirect this."""

    def __init__(self, fd: int) -> None:
        self._there = _Descriptor(os.dup(fd))
        self._writing = Writing()

    def put(self, data: bytes) -> None:
        self._writing.write(self._there.write, data)

    def close(self) -> None:
        os.close(self._there.fd)


class FilePlace:
    """A file, opened for appending, so that processes which share it do not write into each other's lines. One that was
    moved or deleted (logrotate) is opened anew."""

    def __init__(self, path: Path) -> None:
        """Raises OSError where it cannot be opened."""
        self._path = path
        self._writing = Writing()
        self._there: _Descriptor | None = self._opened()

    def put(self, data: bytes) -> None:
        if self._there is None or not self._is_there(self._there.fd):
            self.close()
            self._there = self._opened()
        self._writing.write(self._there.write, data)

    def is_terminal(self) -> bool:
        return self._there is not None and os.isatty(self._there.fd)

    def close(self) -> None:
        if self._there is not None:
            there, self._there = self._there, None
            os.close(there.fd)

    def _opened(self) -> _Descriptor:
        # What stands in the place of a file may be a pipe or a terminal, whose reader nobody waits for.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
        return _Descriptor(os.open(self._path, flags, 0o666))

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
