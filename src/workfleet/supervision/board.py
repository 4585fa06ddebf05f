"""The board: what a worker holds, in memory that it shares with whoever keeps its leases.

The worker writes a note when it claims a job or takes a lock and clears it when that is settled; the supervisor reads.
Nothing that user code does to the worker's loop or interpreter lock can hold up a reader in another process. A note
takes a few microseconds, and nobody waits for anybody: a checksum tells a whole note from one that is being written.

A reader writes one thing: when it renewed a lock, or that the lock is lost, for code that blocks the worker's loop.

Layout (little endian): a header of 64 bytes (magic, slots, slots ever used, progress and its complement), then slots of
512 bytes: checksum, length, the deadline and its complement, the renewal and its complement mixed with the sequence,
then sequence, kind, four lengths, two numbers, owner, name, queue and label, which the checksum is of. A slot whose
checksum is 0 is free. The file knows no store; instants are milliseconds of the machine's monotonic clock, equal in all
processes.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
import zlib
from typing import Literal

from msgspec import Struct

from ..model.jobs import Claim
from ..ports.clock import Clock

_HEADER = struct.Struct("<8sII")
_PROGRESS = struct.Struct("<QQ")
_CHECK = struct.Struct("<II")
_DEADLINE = struct.Struct("<QQ")
_RENEWAL = struct.Struct("<QQ")
_HEAD = struct.Struct("<IIQQQQ")
_NOTE = struct.Struct("<IBxHHHHqq")
_MAGIC = b"wfboard4"
_USED_AT, _PROGRESS_AT = 12, 16
_HEADER_SIZE, _SLOT_SIZE = 64, 512
_DEADLINE_AT = _CHECK.size
_RENEWAL_AT = _DEADLINE_AT + _DEADLINE.size
_BODY_AT = _RENEWAL_AT + _RENEWAL.size
_ROOM = _SLOT_SIZE - _BODY_AT - _NOTE.size
_FREE = bytes(_CHECK.size)
_ALL_ONES = 2**64 - 1
_MAX_DEADLINE = 2**62
_LOST_MS = _ALL_ONES
_READS = 3
_ANY_TEXT = "surrogatepass"

EntryKind = Literal["job", "lock"]
_KINDS: tuple[EntryKind, EntryKind] = ("job", "lock")
_JOB, _LOCK = 0, 1


class BoardEntry(Struct, frozen=True):
    """A note as it was read. `name` is a job's id or a lock's name, `owner` the claim's token or the lock's owner."""

    slot: int
    sequence: int
    """Another note in the same slot has another one."""
    kind: EntryKind
    name: str
    owner: str
    noted_ms: int
    """Since when it is held, at the latest."""
    deadline_ms: int
    """When the job's run must have ended; 0: never."""
    ttl_ms: int
    """What a lock is renewed for; 0 for jobs."""
    queue: str = ""
    """A job's own queue."""
    label: str = ""
    """A job's own name, cut to the room that there is."""

    @property
    def shown(self) -> str:
        """What it is, for people: a job's name and id, a lock's name."""
        return f"{self.label} ({self.name})" if self.label else self.name

    @property
    def claim(self) -> Claim:
        """The claim behind a job's note."""
        return Claim(self.name, self.owner, self.queue)


class Board:
    """A board has one writing process (any of its threads) and any number of readers. It satisfies `ClaimBoard`.

    Of the readers one renews, and writes what comes of that beside a lock's note."""

    def __init__(self, fd: int, clock: Clock, *, slots: int) -> None:
        """Use `Board.create` or `Board.attach`."""
        self.fd, self.slots = fd, slots
        self._clock = clock
        self._map = mmap.mmap(fd, _size(slots))
        self._free = list(range(slots - 1, -1, -1))
        self._noted: dict[int, int] = {}
        """The sequence of what this process has noted, by slot."""
        self._sequence = 0
        self._used = 0

    @classmethod
    def create(cls, *, slots: int, clock: Clock) -> Board:
        """A new board in anonymous memory. Its `fd` is given to the worker, and stays open until `close()`."""
        if hasattr(os, "memfd_create"):
            fd = os.memfd_create("workfleet-board", os.MFD_CLOEXEC)
        else:
            fd, path = tempfile.mkstemp(prefix="workfleet-board-")
            os.unlink(path)
        os.ftruncate(fd, _size(slots))
        os.pwrite(fd, _HEADER.pack(_MAGIC, slots, 0), 0)
        return cls(fd, clock, slots=slots)

    @classmethod
    def attach(cls, fd: int, *, clock: Clock) -> Board:
        """The board behind an inherited descriptor, which this process's own children no longer inherit."""
        magic, slots, _ = _HEADER.unpack(os.pread(fd, _HEADER.size, 0))
        if magic != _MAGIC:
            raise ValueError(f"descriptor {fd} is no board")
        os.set_inheritable(fd, False)
        return cls(fd, clock, slots=slots)

    def close(self) -> None:
        """Give the memory and the descriptor back. Closing twice does nothing."""
        if not self._map.closed:
            self._map.close()
            os.close(self.fd)

    def put(self, claim: Claim, *, timeout_ms: int | None = None, since_ms: int | None = None, label: str = "") -> int:
        """Note a claim. Its run must have ended `timeout_ms` from now (None: it has no deadline). `label` is the job's
        name, for people.

        `since_ms` is the monotonic instant at which the claim was asked for, if earlier: the lease counts from there.
        Returns the slot, or -1 when there is none left or id, token and queue are longer than about 440 bytes: the job
        then runs all the same, but only this process itself can renew it.
        """
        now_ms = int(self._clock.monotonic() * 1000)
        deadline_ms = 0 if timeout_ms is None else min(now_ms + timeout_ms, _MAX_DEADLINE)
        noted_ms = now_ms if since_ms is None else since_ms
        return self._put(_JOB, claim.token, claim.job_id, noted_ms, 0, deadline_ms, claim.queue, label)

    def put_lock(self, name: str, owner: str, *, ttl_ms: int, since_ms: int | None = None) -> int:
        """Note a lock that is renewed for `ttl_ms` whenever a third of that has passed. Else as `put`."""
        return self._put(_LOCK, owner, name, self._monotonic_ms() if since_ms is None else since_ms, ttl_ms, 0)

    def renewed(self, entry: BoardEntry, at_ms: int) -> None:
        """For who renews: the store was asked at that monotonic instant to renew this lock, and did."""
        self._set_renewal(entry, at_ms)

    def lost(self, entry: BoardEntry) -> None:
        """For who renews: the store says that this lock is not its owner's any more."""
        self._set_renewal(entry, _LOST_MS)

    def renewed_ms(self, slot: int) -> int | None:
        """When the lock that this process noted there was renewed last, or was noted; -1: it is lost.

        None: it cannot be read right now, or nothing is noted there."""
        sequence = self._noted.get(slot)
        if sequence is None or self._map.closed:
            return None
        for _ in range(_READS):
            at_ms, check = _RENEWAL.unpack_from(self._map, _at(slot) + _RENEWAL_AT)
            if at_ms ^ check ^ _ALL_ONES == sequence:
                return -1 if at_ms == _LOST_MS else int(at_ms)
        return None

    def ended(self, slot: int) -> None:
        """The run has ended: it has no deadline any more. A store that is slow to settle it makes no stuck job."""
        if slot in self._noted:
            self._set_deadline(_at(slot), 0)

    def clear(self, slot: int) -> None:
        """Forget a note. -1, and a slot that is free already, do nothing."""
        if self._noted.pop(slot, None) is None:
            return
        at = _at(slot)
        self._map[at : at + _CHECK.size] = _FREE
        self._free.append(slot)

    def beat(self) -> None:
        """The loop of this process makes progress."""
        now_ms = self._monotonic_ms()
        _PROGRESS.pack_into(self._map, _PROGRESS_AT, now_ms, now_ms ^ _ALL_ONES)

    def rest(self) -> None:
        """The loop of this process does not beat any more."""
        if not self._map.closed:
            _PROGRESS.pack_into(self._map, _PROGRESS_AT, 0, _ALL_ONES)

    def progress_ms(self) -> int:
        """The monotonic instant of the last `beat`; 0 before the first, and after `rest`."""
        for _ in range(0 if self._map.closed else _READS):
            value, complement = _PROGRESS.unpack_from(self._map, _PROGRESS_AT)
            if value ^ complement == _ALL_ONES:
                return int(value)
        return 0

    def entries(self) -> list[BoardEntry]:
        """Every whole note. One that is being written right now may be missing; it is there at the next look.

        A closed board has none.
        """
        if self._map.closed:
            return []
        (used,) = struct.unpack_from("<I", self._map, _USED_AT)
        found = (self._read(slot) for slot in range(min(used, self.slots)))
        return [entry for entry in found if entry is not None]

    def _put(
        self,
        kind: int,
        owner: str,
        name: str,
        noted_ms: int,
        ttl_ms: int,
        deadline_ms: int,
        queue: str = "",
        label: str = "",
    ) -> int:
        who, what = owner.encode("utf-8", _ANY_TEXT), name.encode("utf-8", _ANY_TEXT)
        where = queue.encode("utf-8", _ANY_TEXT)
        told = who + what + where
        if len(told) > _ROOM or not self._free:
            return -1
        slot = self._free.pop()
        sequence = self._sequence = self._sequence + 1 & 0xFFFF_FFFF
        self._noted[slot] = sequence
        shown = label.encode("utf-8", _ANY_TEXT)[: _ROOM - len(told)]
        body = _NOTE.pack(sequence, kind, len(who), len(what), len(where), len(shown), noted_ms, ttl_ms) + told + shown
        no_deadline, no_renewal = deadline_ms ^ _ALL_ONES, noted_ms ^ _ALL_ONES ^ sequence
        head = _HEAD.pack(zlib.crc32(body) or 1, len(body), deadline_ms, no_deadline, noted_ms, no_renewal)
        at = _at(slot)
        # One copy in whatever order the machine likes: the checksum is right only when all of it is there.
        self._map[at : at + _BODY_AT + len(body)] = head + body
        if slot >= self._used:
            self._used = slot + 1
            self._map[_USED_AT : _USED_AT + 4] = self._used.to_bytes(4, "little")
        return slot

    def _set_deadline(self, at: int, deadline_ms: int) -> None:
        _DEADLINE.pack_into(self._map, at + _DEADLINE_AT, deadline_ms, deadline_ms ^ _ALL_ONES)

    def _set_renewal(self, entry: BoardEntry, at_ms: int) -> None:
        """A note that has taken this one's place meanwhile has another sequence: its owner does not believe this."""
        if not self._map.closed:
            at = _at(entry.slot) + _RENEWAL_AT
            _RENEWAL.pack_into(self._map, at, at_ms, at_ms ^ _ALL_ONES ^ entry.sequence)

    def _read(self, slot: int) -> BoardEntry | None:
        at = _at(slot)
        for _ in range(_READS):
            raw = self._map[at : at + _SLOT_SIZE]
            if raw.startswith(_FREE[:4]):
                return None
            entry = _parse(slot, raw)
            if entry is not None:
                return entry
        return None

    def _monotonic_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)


def _parse(slot: int, raw: bytes) -> BoardEntry | None:
    """The note in a slot, or None when it is not whole."""
    check, length = _CHECK.unpack_from(raw)
    deadline_ms, complement = _DEADLINE.unpack_from(raw, _DEADLINE_AT)
    body = raw[_BODY_AT : _BODY_AT + length]
    if length < _NOTE.size or length > len(raw) - _BODY_AT or (zlib.crc32(body) or 1) != check:
        return None
    if deadline_ms ^ complement != _ALL_ONES:
        return None
    sequence, kind, owner, name, queue, label, noted_ms, ttl_ms = _NOTE.unpack_from(body)
    owner_end = _NOTE.size + owner
    name_end = owner_end + name
    queue_end = name_end + queue
    return BoardEntry(
        slot=slot,
        sequence=sequence,
        kind=_KINDS[kind],
        name=body[owner_end:name_end].decode(errors="surrogatepass"),
        owner=body[_NOTE.size : owner_end].decode(errors="surrogatepass"),
        noted_ms=noted_ms,
        deadline_ms=deadline_ms,
        ttl_ms=ttl_ms,
        queue=body[name_end:queue_end].decode(errors="surrogatepass"),
        label=body[queue_end : queue_end + label].decode(errors="ignore"),
    )


def _at(slot: int) -> int:
    return _HEADER_SIZE + slot * _SLOT_SIZE


def _size(slots: int) -> int:
    return _HEADER_SIZE + slots * _SLOT_SIZE
