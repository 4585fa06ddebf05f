"""Memory that parent and child share, through which large parts go: one side puts them in, the other copies them out.

It is a file without a name, in memory where the system has that (Linux, without a need for /dev/shm). The parent makes
it and gives a child its descriptor; it is freed with the last descriptor, so nothing of it stays when either dies, in
whatever moment. It is written and read, never mapped: a full disk or too little memory is an error of that call, not a
signal that ends the process. Standard library only: the child imports this.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from workfleet.pools.parcel import Part

_MOST: Final = 1 << 30
"""What does not fit below goes through the socket."""
_KEPT: Final = 1 << 24
"""How much memory is kept for the next parts: new pages cost more than copying."""


def create(name: str) -> int:
    """A descriptor of new shared memory, still empty."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    import tempfile  # here, for a quick start where it is not needed

    fd, path = tempfile.mkstemp(prefix=f"{name}-")
    os.unlink(path)
    return fd


class Segment:
    """The memory behind a descriptor, which it owns. One side puts and releases, the other reads."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._used: dict[int, tuple[int, int]] = {}
        """Start and end of what was put in and not released, by key, in that order."""
        self._size = 0

    def put(self, key: int, parts: Sequence[Part]) -> int | None:
        """Where the parts, one after the other, begin. None where there is no room for them: nothing is kept then."""
        size = sum(map(len, parts))
        start = self._room(size)
        if start is None:
            return None
        at = start
        try:
            for part in parts:
                self._write(part, at)
                at += len(part)
        except OSError:  # no memory, no space, a limit: it can go another way
            self._shrink()
            return None
        finally:
            self._size = max(self._size, at)
        self._used[key] = start, at
        return start

    def _room(self, size: int) -> int | None:
        """Where so much is free: behind the newest, or else before the oldest."""
        if not self._used:
            return 0 if size <= _MOST else None
        oldest, newest = next(iter(self._used.values())), next(reversed(self._used.values()))
        end = newest[1]
        if newest[0] < oldest[0]:
            return end if end + size <= oldest[0] else None
        if end + size <= _MOST:
            return end
        return 0 if size <= oldest[0] else None

    def _write(self, part: Part, at: int) -> None:
        view = memoryview(part)
        while view:
            done = os.pwrite(self._fd, view, at)
            view, at = view[done:], at + done

    def release(self, key: int | None = None) -> None:
        """What was put in under this key is no longer needed, if anything was; None: the oldest."""
        if key is None:
            key = next(iter(self._used), None)
        if key is not None and self._used.pop(key, None) is not None:
            self._shrink()

    def _shrink(self) -> None:
        if not self._used and self._size > _KEPT:
            os.truncate(self._fd, _KEPT)
            self._size = _KEPT

    def start(self, key: int) -> int | None:
        """Where that begins which was put in under this key; None where nothing is."""
        place = self._used.get(key)
        return None if place is None else place[0]

    def read(self, start: int, size: int) -> bytes:
        data = os.pread(self._fd, size, start)
        if len(data) != size:
            raise EOFError(f"{len(data)} of {size} bytes are there")
        return data

    def read_changeable(self, start: int, size: int) -> bytearray:
        data = bytearray(size)
        if hasattr(os, "preadv"):
            if os.preadv(self._fd, [data], start) != size:
                raise EOFError(f"fewer than {size} bytes are there")
        else:
            data[:] = self.read(start, size)
        return data

    def close(self) -> None:
        """A second time does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1  # its number may soon be another file's
