"""The child's end of the wire: blocking while there is nothing to do, polled while a method runs.

Knows frames, not what they mean; the only one who reads the socket. Sending is safe from any thread.
"""

from __future__ import annotations

import os
import socket
import threading
from collections import deque
from typing import Final

from workfleet.pools import wire
from workfleet.pools.parcel import Parcel
from workfleet.pools.segment import Segment

_QUIET_NS: Final = 1_000_000
"""After so long the parent is told again, so that it and this process work at the same time."""
_PIPED: Final = 2_048
"""Smaller than the least PIPE_BUF that there is in the wild, 4,096, with its header."""


Message = tuple[int, int, int, wire.Heard]
"""Kind, call id, number, body: one frame, whose body stays valid."""


class Closed(Exception):
    """The parent closed its end."""


class Channel:
    """Messages in order of arrival. Large arguments come, and large results go, through memory that is shared with the
    parent, where there is some. `pipe` is where small results go that the parent need not hear of at once."""

    def __init__(
        self,
        sock: socket.socket,
        pipe: int | None = None,
        arguments: Segment | None = None,
        results: Segment | None = None,
    ) -> None:
        self._socket = sock
        self._reader = wire.FrameReader(arguments, lasting=True)
        self._results = results
        self._put = 0
        self._pipe = pipe
        self._told = 0
        self._arrived: deque[Message] = deque()
        self._sending = threading.Lock()

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, kind: int, call_id: int, body: wire.Body = b"", number: int = 0) -> None:
        if kind in (wire.LOG, wire.PROGRESS):
            self._told = 0  # the call's answer must not overtake it through the pipe
        with self._sending:
            start = None
            if self._results is not None and type(body) is Parcel:
                self._put += 1
                start = self._results.put(self._put, body.parts)
            try:
                for piece in wire.frame(kind, call_id, body, number, start=start):
                    self._socket.sendall(piece)
            except (BrokenPipeError, ConnectionResetError):
                raise Closed from None

    def answer(self, kind: int, call_id: int, body: wire.Body, started: int, ended: int) -> None:
        """Sends the result of a call that took from one instant to another, in nanoseconds.

        While more calls wait here, a small result goes into the pipe: it cannot be lost with this process, but the
        parent is not woken for each. It looks there before it takes anything from the socket, and every few
        milliseconds.
        """
        number = (ended - started) // 1000
        arrived = self._arrived
        if (
            self._pipe is not None
            and kind == wire.RESULT
            and arrived
            and arrived[0][0] == wire.CALL
            and ended - self._told < _QUIET_NS
            and type(body) is bytes
            and len(body) < _PIPED
        ):
            try:
                os.write(self._pipe, wire.small(kind, call_id, body, number))  # so small a piece is written whole
            except BlockingIOError:  # full
                pass
            else:
                return
        self._told = ended
        self.send(kind, call_id, body, number)

    def has_message(self) -> bool:
        return bool(self._arrived)

    def next(self) -> Message:
        """The next message; waits for it."""
        arrived = self._arrived
        while not arrived:
            self._read(0)
        return arrived.popleft()

    def poll(self, kinds: frozenset[int]) -> list[Message]:
        """Reads what is there without waiting, and takes the messages of these kinds out of the order."""
        try:
            self._read(socket.MSG_DONTWAIT)
        except BlockingIOError:
            pass
        return self._take(kinds)

    def wait(self, kinds: frozenset[int]) -> list[Message]:
        """Waits until there is at least one message of these kinds, and takes them out of the order."""
        while not (taken := self._take(kinds)):
            self._read(0)
        return taken

    def _take(self, kinds: frozenset[int]) -> list[Message]:
        if not self._arrived:
            return []
        taken = [message for message in self._arrived if message[0] in kinds]
        if taken:
            self._arrived = deque(message for message in self._arrived if message[0] not in kinds)
        return taken

    def _read(self, flags: int) -> None:
        count = self._socket.recv_into(self._reader.room(), 0, flags)
        if not count:
            raise Closed
        for message in self._reader.take(count):
            if message[0] == wire.TAKEN:
                self._release()
            else:
                self._arrived.append(message)

    def _release(self) -> None:
        with self._sending:
            if self._results is not None:
                self._results.release()
