"""What the children of the tests of large values serve."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workfleet.pools import child_context


@dataclass
class Picture:
    """Large bytes inside an object of a user."""

    name: str
    data: bytes


class Slab:
    """A buffer that leaves the pickle out of band, as arrays do. Not all of its kind can be written."""

    def __init__(self, buffer: Any) -> None:
        self.view = memoryview(buffer)

    def __reduce_ex__(self, protocol: int) -> Any:
        import pickle

        return Slab, (pickle.PickleBuffer(self.view),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slab) and self.view == other.view and self.view.readonly == other.view.readonly

    __hash__ = None  # type: ignore[assignment]


class Large:
    """Takes and gives large values."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def pid(self) -> int:
        return os.getpid()

    def echo(self, value: Any) -> Any:
        return value

    def keep(self, value: Any) -> None:
        self.kept.append(value)

    def give_kept(self) -> list[Any]:
        return self.kept

    def describe(self, *values: Any) -> list[tuple[str, int]]:
        return [(type(value).__name__, len(value)) for value in values]

    def first_byte(self, value: Any) -> int:
        return memoryview(value)[0]

    def scale_in_place(self, array: Any) -> Any:
        array *= 2
        return array

    def same(self, first: Any, second: Any) -> bool:
        return first is second

    def make(self, size: int) -> bytes:
        return b"x" * size

    def make_after(self, mark: str, size: int) -> bytes:
        data = os.urandom(1 << 20) * (size >> 20)
        Path(mark).write_text(str(os.getpid()))
        return data

    def items(self, size: int, count: int) -> Iterator[bytes]:
        for number in range(count):
            yield bytes([number]) * size

    async def aitems(self, size: int, count: int) -> AsyncIterator[bytes]:
        for number in range(count):
            yield bytes([number]) * size

    def say(self, size: int) -> None:
        call = child_context.current()
        assert call is not None
        call.log(b"l" * size)
        call.progress(bytearray(b"p") * size)

    def raise_large(self, size: int) -> None:
        raise ValueError(b"e" * size)

    def no_file_above(self, size: int) -> None:
        """No memory file may grow above it from now on: what is written there fails, as on a full disk."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def shared_bytes(self) -> int:
        """The size of the memory through which results go."""
        return sum(os.fstat(fd).st_size for fd in _descriptors("workfleet-results"))

    def descriptors(self) -> list[str]:
        return [os.readlink(f"/proc/self/fd/{fd}") for fd in _descriptors("")]

    def begin(self, mark: str) -> None:
        Path(mark).write_text(str(os.getpid()))
        time.sleep(60)


def _descriptors(name: str) -> list[int]:
    found = []
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            if name in os.readlink(f"/proc/self/fd/{fd}"):
                found.append(fd)
        except FileNotFoundError:  # the one that lists them
            pass
    return found
