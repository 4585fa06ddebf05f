"""The parent's end of a child's socket: frames in, frames out, the frames of one loop tick in one write."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Final, cast

from workfleet.pools import wire
from workfleet.pools.segment import Segment

_LARGE: Final = 1 << 16

OnFrame = Callable[[int, int, int, wire.Heard], None]
"""Called with kind, call id, number and body; the body is only valid during the call."""


class Link(asyncio.BufferedProtocol):
    """`closed` is done when the other end is closed and everything that it sent has been handed on.

    `results` is the memory through which the other end sends what is large, `pipe` what it writes small results into
    that it wakes nobody for: `catch_up` hands them on.
    """

    def __init__(self, on_frame: OnFrame, results: Segment | None = None, pipe: int | None = None) -> None:
        self._on_frame = on_frame
        self._reader = wire.FrameReader(results)
        self._pipe = pipe
        self._piped = wire.FrameReader()
        self._outgoing: list[bytes] = []
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self.closed: asyncio.Future[None] = self._loop.create_future()

    async def open(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        await self._loop.create_connection(lambda: self, sock=sock)

    def send(self, pieces: list[bytes]) -> None:
        """Sent at the end of this tick. What is sent to a child that is gone is dropped: its end says so."""
        if not self._outgoing:
            self._loop.call_soon(self._flush)
        self._outgoing += pieces

    def _flush(self) -> None:
        pieces, self._outgoing = self._outgoing, []
        if self._transport is None or self._transport.is_closing():
            return
        if max(map(len, pieces)) < _LARGE:
            self._transport.write(b"".join(pieces))
        else:  # joining would copy it
            for piece in pieces:
                self._transport.write(piece)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.room()

    def buffer_updated(self, nbytes: int) -> None:
        on_frame, reader = self._on_frame, self._reader
        frames = reader.take(nbytes)
        while reader.shared:
            reader.shared -= 1
            self.send(wire.frame(wire.TAKEN, 0))
        for frame in frames:
            on_frame(*frame)

    def catch_up(self) -> None:
        on_frame, reader = self._on_frame, self._piped
        while self._pipe is not None:
            try:
                count = os.readv(self._pipe, [reader.room()])
            except BlockingIOError:
                return
            if not count:
                return
            for frame in reader.take(count):
                on_frame(*frame)

    def close_pipe(self) -> None:
        """Hands on the rest of what is there."""
        self.catch_up()
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)
