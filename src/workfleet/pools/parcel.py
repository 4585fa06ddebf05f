"""Values with large parts, taken apart so that these are copied once on each side: pickle protocol 5 out of band.

Buffers (arrays) leave the pickle by its own protocol. Byte strings and byte arrays, which pickle always copies into
itself, leave it as persistent ids. What is large but of neither kind goes as one part, pickled. Each arrives as the
type that was sent, and as writable as it was. Standard library only: the child imports this.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

LARGE: Final = 1 << 18
"""From here on it is a part of its own. Below, what a part costs is more than its copies."""
SIMPLE: Final = frozenset({int, float, bool, type(None), str})
"""Types whose values never have parts, but may be large as a whole."""
_LOOKED_AT: Final = 1_000
"""How many values are looked at for large byte strings, so that looking is never what a call costs."""

_PICKLE: Final = 0
_BYTES: Final = 1
_BYTEARRAY: Final = 2
_BUFFER: Final = 3
_CHANGEABLE: Final = frozenset({_BYTEARRAY, _BUFFER})

_PREFIX = struct.Struct("<Iq")
"""How many parts, and where the first begins in the segment; -1: they follow the pickle."""
_PART = struct.Struct("<QB")
_FOLLOWING: Final = -1

Part = bytes | bytearray | memoryview


class Readable(Protocol):
    """Where parts can be copied out of."""

    def read(self, start: int, size: int) -> bytes: ...
    def read_changeable(self, start: int, size: int) -> bytearray: ...


class Parcel(NamedTuple):
    """A pickle, and its parts with what each is."""

    pickled: bytes
    parts: Sequence[Part]
    kinds: bytes

    def frozen(self) -> Parcel:
        """The same, with copies of what its owner could still change."""
        return self._replace(parts=[part if _constant(part) else bytes(part) for part in self.parts])

    def copied(self) -> Parcel:
        """As it would arrive: every part is a copy."""
        copies = [
            bytearray(part) if kind in _CHANGEABLE else bytes(part)
            for part, kind in zip(self.parts, self.kinds, strict=True)
        ]
        return self._replace(parts=copies)

    def taken_from(self, memory: Readable, start: int) -> Parcel:
        """The same, with what its owner could still change as it is in memory, where the parts begin at `start`."""
        parts = list(self.parts)
        for index, part in enumerate(self.parts):
            if not _constant(part):
                parts[index] = memory.read(start, len(part))
            start += len(part)
        return self._replace(parts=parts)

    def head(self, start: int | None) -> bytes:
        """What tells the other side of it: the parts begin in memory at `start`; None: they follow this."""
        table = b"".join(_PART.pack(len(part), kind) for part, kind in zip(self.parts, self.kinds, strict=True))
        return _PREFIX.pack(len(self.parts), _FOLLOWING if start is None else start) + table + self.pickled


def _constant(part: Part) -> bool:
    return isinstance(part, bytes) or (isinstance(part, memoryview) and part.readonly)


def pack(value: object) -> bytes | Parcel:
    """Pickles; a `Parcel` where there is something large. Raises what pickling raises."""
    if type(value) in SIMPLE:
        pickled = pickle.dumps(value, 5)
        return pickled if len(pickled) < LARGE else Parcel(b"", [pickled], bytes([_PICKLE]))
    parts: list[Part] = []
    kinds = bytearray()

    def aside(buffer: pickle.PickleBuffer) -> bool:
        """True leaves it in the pickle."""
        try:
            raw = buffer.raw()
        except BufferError:  # not in one piece
            return True
        if len(raw) < LARGE:
            return True
        parts.append(raw)
        kinds.append(_BUFFER)
        return False

    large = _large(value)
    if large is None:
        pickled = pickle.dumps(value, 5, buffer_callback=aside)
    else:
        file = io.BytesIO()
        _Packer(file, aside, large, parts, kinds).dump(value)
        pickled = file.getvalue()
    if len(pickled) >= LARGE:
        parts.append(pickled)
        kinds.append(_PICKLE)
        pickled = b""
    return Parcel(pickled, parts, bytes(kinds)) if parts else pickled


def pack_call(method: str, args: Sequence[Any], kwargs: Mapping[str, Any], context: object) -> bytes | Parcel:
    """`pack` of all of them, quicker where there are only simple arguments."""
    request = method, tuple(args), dict(kwargs), context
    if context is not None or kwargs:
        return pack(request)
    for each in args:
        if type(each) not in SIMPLE:
            return pack(request)
    pickled = pickle.dumps(request, 5)
    return pickled if len(pickled) < LARGE else Parcel(b"", [pickled], bytes([_PICKLE]))


def _large(value: object) -> set[int] | None:
    """The ids of the large byte strings in plain containers, as far as a quick look finds them; None: there is none."""
    found: set[int] | None = None
    left, stack = _LOOKED_AT, [value]
    while stack:
        one: Any = stack.pop()
        kind = type(one)
        if kind is bytes or kind is bytearray:
            if len(one) >= LARGE:
                found = found or set()
                found.add(id(one))
        elif (kind is tuple or kind is list or kind is dict) and one:
            left -= len(one)
            if left < 0:
                break
            stack += [inner for inner in (one.values() if kind is dict else one) if type(inner) not in SIMPLE]
    return found


class _Packer(pickle.Pickler):
    """Leaves the byte strings of these ids out of the pickle, each once."""

    def __init__(
        self,
        file: io.BytesIO,
        aside: Callable[[pickle.PickleBuffer], bool],
        large: set[int],
        parts: list[Part],
        kinds: bytearray,
    ) -> None:
        super().__init__(file, 5, buffer_callback=aside)
        self._large = large
        self._parts = parts
        self._kinds = kinds
        self._known: dict[int, int] = {}

    def persistent_id(self, value: Any) -> int | None:
        identity = id(value)
        if identity not in self._large:
            return None
        if identity not in self._known:
            self._known[identity] = len(self._parts)
            self._parts.append(value)
            self._kinds.append(_BYTES if type(value) is bytes else _BYTEARRAY)
        return self._known[identity]


class _Unpacker(pickle.Unpickler):
    def __init__(self, parcel: Parcel) -> None:
        parts, kinds = parcel.parts, parcel.kinds
        pickled = parcel.pickled
        if kinds[-1] == _PICKLE:
            pickled = bytes(parts[-1])
        buffers = [part for part, kind in zip(parts, kinds, strict=True) if kind == _BUFFER]
        super().__init__(io.BytesIO(pickled), buffers=buffers)
        self._parts = parts

    def persistent_load(self, index: Any) -> Part:
        part: Part = self._parts[index]
        return part


def unpack(parcel: Parcel) -> Any:
    """The value. Raises what unpickling raises."""
    return _Unpacker(parcel).load()


def opened(body: memoryview, memory: Readable | None) -> tuple[Parcel, bool]:
    """The parcel that `head` tells of, with parts that nobody else has; and whether they were in memory."""
    count, start = _PREFIX.unpack_from(body)
    at = _PREFIX.size + count * _PART.size
    sizes = list(_PART.iter_unpack(body[_PREFIX.size : at]))
    source: Readable
    if start == _FOLLOWING:
        start, source = len(body) - sum(size for size, _ in sizes), _Following(body)
        pickled = bytes(body[at:start])
    else:
        assert memory is not None, "it came through memory that is not shared"
        pickled, source = bytes(body[at:]), memory
    shared = source is memory
    parts: list[Part] = []
    for size, kind in sizes:
        read = source.read_changeable if kind in _CHANGEABLE else source.read
        parts.append(read(start, size))
        start += size
    return Parcel(pickled, parts, bytes(kind for _, kind in sizes)), shared


class _Following:
    """Parts that came with the frame."""

    def __init__(self, body: memoryview) -> None:
        self._body = body

    def read(self, start: int, size: int) -> bytes:
        return bytes(self._body[start : start + size])

    def read_changeable(self, start: int, size: int) -> bytearray:
        return bytearray(self._body[start : start + size])
