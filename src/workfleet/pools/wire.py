"""What parent and child say to each other: length-prefixed frames of pickle protocol 5 over one socket pair a child.

A frame is a header (body length, kind, number, call id) and a body. The number is the microseconds that a call took, or
the room that a consumer has. Both ends are always of the same release, so
the layout may change at any time. Standard library only: the child imports this first.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterator
from typing import Any, Final

# Parent to child.
BOOT: Final = 1  # who to be: the first frame
CALL: Final = 2  # run a method
CREDIT: Final = 3  # the consumer of a stream has room for so many more items
CANCEL: Final = 4  # nobody waits for this call any more
PING: Final = 5  # are you well
STOP: Final = 6  # run the shutdown hooks and exit

# Child to parent.
READY: Final = 11  # built; the body tells the kinds of its methods
UNFIT: Final = 12  # could not be built; the body says why
RESULT: Final = 13
ERROR: Final = 14
UNSENDABLE: Final = 15  # the method returned what cannot be sent
ITEM: Final = 16
END: Final = 17  # of a stream
LOG: Final = 18
PROGRESS: Final = 19
PONG: Final = 20

STREAM_WINDOW: Final = 8
"""How many items of a stream may be on their way: the child stops there until the consumer has taken some."""

HEADER = struct.Struct("<QBIQ")
_SMALL = 1 << 16
_LARGEST_NUMBER = (1 << 32) - 1

Frame = tuple[int, int, int, memoryview]
"""Kind, call id, number, body. The body must be used or `kept` before the reader is filled again."""


def encode(value: object) -> bytes:
    return pickle.dumps(value, protocol=5)


def decode(body: bytes | memoryview) -> Any:
    return pickle.loads(body)


def kept(body: memoryview) -> bytes | memoryview:
    """The body in a form that stays valid: a large one owns its buffer already."""
    return body if len(body) >= _SMALL else bytes(body)


def frame(kind: int, call_id: int, body: bytes = b"", number: int = 0) -> list[bytes]:
    """The frame in pieces: a large body stays a piece of its own, so that it is not copied."""
    header = HEADER.pack(len(body), kind, min(number, _LARGEST_NUMBER), call_id)
    return [header + body] if len(body) < _SMALL else [header, body]


class FrameReader:
    """Cuts a stream of bytes into frames. Fill `room()`, then take the whole frames with `take(count)`."""

    def __init__(self) -> None:
        self._renew(_SMALL)

    def _renew(self, size: int) -> None:
        self._view = memoryview(bytearray(size))
        self._start = self._end = 0

    def room(self) -> memoryview:
        return self._view[self._end :]

    def take(self, count: int) -> Iterator[Frame]:
        """The frames that are whole now that `count` more bytes were filled in. Iterate to the end."""
        self._end += count
        needed = HEADER.size
        while self._end - self._start >= HEADER.size:
            length, kind, number, call_id = HEADER.unpack_from(self._view, self._start)
            needed = HEADER.size + length
            if self._end - self._start < needed:
                break
            body = self._view[self._start + HEADER.size : self._start + needed]
            self._start += needed
            needed = HEADER.size
            yield kind, call_id, number, body
        self._make_room(needed)

    def _make_room(self, needed: int) -> None:
        """Sees that the frame that was begun has room. A large body keeps the buffer that it was handed out of."""
        if self._start == 0 and self._end < needed <= len(self._view):
            return
        left = bytes(self._view[self._start : self._end])
        if len(self._view) != _SMALL or needed > _SMALL:
            self._renew(max(needed, _SMALL))
        self._view[: len(left)] = left
        self._start, self._end = 0, len(left)
