"""What parent and child say to each other: length-prefixed frames of pickle protocol 5 over one socket pair a child.

A frame is a header (body length, kind, number, call id) and a body. The number is the microseconds that a call took, or
the room that a consumer has. A kind with `LARGE` added has a body that leads to a `Parcel` (see `parcel`). Both ends
are always of the same release, so the layout may change at any time. Standard library only: the child imports this
first.
"""

from __future__ import annotations

import pickle
import struct
from typing import Any, Final

from workfleet.pools import parcel
from workfleet.pools.parcel import Parcel

# Parent to child.
BOOT: Final = 1  # who to be: the first frame
CALL: Final = 2  # run a method
CREDIT: Final = 3  # the consumer of a stream has room for so many more items
CANCEL: Final = 4  # nobody waits for this call any more
PING: Final = 5  # are you well
STOP: Final = 6  # run the shutdown hooks and exit
TAKEN: Final = 7  # the oldest of the parcels in the segment of results was copied out of it

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
UNBEGUN: Final = 21  # the child is leaving: this call was not begun, nor will those after it be

LARGE: Final = 0x80

STREAM_WINDOW: Final = 8
"""How many items of a stream may be on their way: the child stops there until the consumer has taken some."""

HEADER = struct.Struct("<QBIQ")
SMALL: Final = 1 << 16
_LARGEST_NUMBER = (1 << 32) - 1
_HEADER = HEADER.size
_pack = HEADER.pack
_unpack = HEADER.unpack_from

Body = bytes | Parcel
"""What is sent."""
Heard = memoryview | Parcel
"""What arrives."""
Frame = tuple[int, int, int, Heard]
"""Kind, call id, number, body. The body must be used or `kept` before the reader is filled again."""


def encode(value: object) -> bytes:
    return pickle.dumps(value, protocol=5)


def decode(body: bytes | memoryview | Parcel) -> Any:
    return parcel.unpack(body) if type(body) is Parcel else pickle.loads(body)  # type: ignore[arg-type]


def kept(body: Heard) -> bytes | memoryview | Parcel:
    """The body in a form that stays valid: a large one owns its buffer already."""
    return body if len(body) >= SMALL or type(body) is Parcel else bytes(body)  # type: ignore[arg-type]


def frame(kind: int, call_id: int, body: Body = b"", number: int = 0, *, start: int | None = None) -> list[bytes]:
    """The frame in pieces: a large one stays a piece of its own, so that it is not copied. `start` is where a parcel's
    parts begin in the memory that both ends share; None: they are sent along."""
    if type(body) is bytes:
        if len(body) < SMALL:
            return [small(kind, call_id, body, number)]
        return [_pack(len(body), kind, min(number, _LARGEST_NUMBER), call_id), body]
    assert isinstance(body, Parcel)
    head = body.head(start)
    parts: list[Any] = list(body.parts) if start is None else []  # any buffer can be written
    size = len(head) + sum(map(len, parts))
    return [HEADER.pack(size, kind | LARGE, min(number, _LARGEST_NUMBER), call_id) + head, *parts]


def small(kind: int, call_id: int, body: bytes, number: int = 0) -> bytes:
    """The frame in one piece."""
    return _pack(len(body), kind, min(number, _LARGEST_NUMBER), call_id) + body


class FrameReader:
    """Cuts a stream of bytes into frames. Fill `room()`, then take the whole frames with `take(count)`.

    With `lasting`, the bodies stay valid for good. The parts of parcels are copied out of `memory` where the other end
    has put them there; `shared` counts those.
    """

    def __init__(self, memory: parcel.Readable | None = None, *, lasting: bool = False) -> None:
        self._memory = memory
        self._lasting = lasting
        self.shared = 0
        self._needed = _HEADER
        self._renew(SMALL)

    def _renew(self, size: int) -> None:
        self._view = memoryview(bytearray(size))
        self._start = self._end = 0

    def room(self) -> memoryview:
        """Where the next bytes go. Small bodies that were taken before are no longer valid."""
        self._make_room()
        return self._view[self._end :]

    def take(self, count: int) -> list[Frame]:
        """The frames that are whole now that `count` more bytes were filled in."""
        view, start, end = self._view, self._start, self._end + count
        frames: list[Frame] = []
        needed = _HEADER
        while end - start >= _HEADER:
            length, kind, number, call_id = _unpack(view, start)
            needed = _HEADER + length
            if end - start < needed:
                break
            if self._lasting and len(view) == SMALL and not frames:
                view = memoryview(bytes(view[:end]))  # one copy for all: the buffer is used again
            body: Heard = view[start + _HEADER : start + needed]
            if kind >= LARGE:
                kind -= LARGE
                body = self._opened(body)
            frames.append((kind, call_id, number, body))
            start += needed
            needed = _HEADER
        self._start, self._end, self._needed = start, end, needed
        return frames

    def _opened(self, body: Any) -> Parcel:
        opened, shared = parcel.opened(body, self._memory)
        self.shared += shared
        return opened

    def _make_room(self) -> None:
        """Sees that the frame that was begun has room. A large body keeps the buffer that it was handed out of."""
        needed = self._needed
        if self._start == self._end and needed <= len(self._view) == SMALL:
            self._start = self._end = 0
            return
        if self._start == 0 and self._end < needed <= len(self._view):
            return
        left = bytes(self._view[self._start : self._end])
        if len(self._view) != SMALL or needed > SMALL:
            self._renew(max(needed, SMALL))
        self._view[: len(left)] = left
        self._start, self._end = 0, len(left)
