"""The child's end of the wire: blocking while there is nothing to do, polled while a method runs.

Knows frames, not what they mean; the only one who reads the socket. Sending is safe from any thread.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from typing import NamedTuple

from workfleet.pools import wire


class Message(NamedTuple):
    """One frame, kept."""

    kind: int
    call_id: int
    number: int
    body: bytes | memoryview


class Closed(Exception):
    """The parent closed its end."""


class Channel:
    """Messages in order of arrival."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._reader = wire.FrameReader()
        self._arrived: deque[Message] = deque()
        self._sending = threading.Lock()

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, kind: int, call_id: int, body: bytes = b"", number: int = 0) -> None:
        with self._sending:
            try:
                for piece in wire.frame(kind, call_id, body, number):
                    self._socket.sendall(piece)
            except (BrokenPipeError, ConnectionResetError):
                raise Closed from None

    def has_message(self) -> bool:
        return bool(self._arrived)

    def next(self) -> Message:
        """The next message; waits for it."""
        while not self._arrived:
            self._read(0)
        return self._arrived.popleft()

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
        taken = [message for message in self._arrived if message.kind in kinds]
        if taken:
            self._arrived = deque(message for message in self._arrived if message.kind not in kinds)
        return taken

    def _read(self, flags: int) -> None:
        count = self._socket.recv_into(self._reader.room(), 0, flags)
        if not count:
            raise Closed
        for kind, call_id, number, body in self._reader.take(count):
            self._arrived.append(Message(kind, call_id, number, wire.kept(body)))
