"""The parent's end of a child's socket: frames in, frames out, the frames of one loop tick in one write.

What follows at once from what a child said leaves at once: it works on that while this process tells the callers.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Final, cast

from workfleet.pools import wire
from workfleet.pools.segment import Segment

_LARGE: Final = 1 << 16

OnFrames = Callable[[list[wire.Frame]], None]
"""Called with the frames that came together, in order. Their bodies are only valid during the call."""


class Link(asyncio.BufferedProtocol):
    """`closed` is done when the other end is closed and everything that it sent has been handed on.

    `results` is the memory through which the other end sends what is large, `pipe` what it writes small results into
    that it wakes nobody for: `catch_up` hands them on.
    """

    def __init__(self, on_frames: OnFrames, results: Segment | None = None, pipe: int | None = None) -> None:
        self._on_frames = on_frames
        self._reader = wire.FrameReader(results)
        self._pipe = pipe
        self._piped = wire.FrameReader()
        self._outgoing: list[bytes] = []
        self._loop = asyncio.get_running_loop()
        self._socket: socket.socket | None = None
        self._transport: asyncio.Transport | None = None
        self.closed: asyncio.Future[None] = self._loop.create_future()

    async def open(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        await self._loop.create_connection(lambda: self, sock=sock)

    def send(self, pieces: list[bytes]) -> None:
        """Sent at the end of this tick. What is sent to a child that is gone is dropped: its end says so."""
        if not self._outgoing:
            self._loop.call_soon(self._flush)
        self._outgoing += pieces

    def _flush(self) -> None:
        pieces, self._outgoing = self._outgoing, []
        transport = self._transport
        if not pieces or transport is None or transport.is_closing():
            return
        if max(map(len, pieces)) < _LARGE:
            data = b"".join(pieces)
            if sent := 0 if transport.get_write_buffer_size() else self._send_now(data):
                data = data[sent:]
            if data:
                transport.write(data)
        else:  # joining would copy it
            for piece in pieces:
                transport.write(piece)

    def _send_now(self, data: bytes) -> int:
        """How much of it has left: a transport may only write when the loop has done all else that it has to do."""
        assert self._socket is not None
        try:
            return self._socket.send(data)
        except OSError:  # full, or its end is gone: the transport finds out which
            return 0

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.room()

    def buffer_updated(self, nbytes: int) -> None:
        reader = self._reader
        frames = reader.take(nbytes)
        while reader.shared:
            reader.shared -= 1
            self.send(wire.frame(wire.TAKEN, 0))
        if frames:
            self._on_frames(frames)
            self._flush()

    def catch_up(self) -> None:
        reader, heard = self._piped, False
        while self._pipe is not None:
            try:
                count = os.readv(self._pipe, [reader.room()])
            except BlockingIOError:
                break
            if not count:
                break
            if frames := reader.take(count):
                self._on_frames(frames)
                heard = True
        if heard:
            self._flush()

    def close_pipe(self) -> None:
        """Hands on the rest of what is there."""
        self.catch_up()
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)
