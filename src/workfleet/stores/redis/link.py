"""One live socket: commands of one turn of the loop go out together, and replies are matched in their order.

It knows neither how the socket came to be nor what happens after it is lost: that is `connection.py`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import hiredis

from workfleet.ports.clock import Clock

Part = bytes | str | int
Waiter = asyncio.Future[Any]
_GRACE_S = 0.1
_PING_S = 120.0
"""Who only listens hears nothing of a dead network: after so long without a word it asks for one."""
_LARGE = 1 << 16
"""What is not sent yet. More takes its time on a slow network, and is no silence while it goes on."""


class Silence(Exception):
    """The server owes an answer for too long."""


class Link(asyncio.Protocol):
    """The protocol of a connected socket. Errors of the server are replies: `hiredis.ReplyError`.

    `lost` is called once, when the socket has ended for whatever reason. With `heard`, replies are no answers but
    messages of channels, and go there. `read_s` bounds how long the server may owe an answer, and how long what is
    large may be sent without getting on.
    """

    def __init__(
        self,
        clock: Clock,
        lost: Callable[[Link, Exception | None], None],
        *,
        read_s: float,
        heard: Callable[[Any], None] | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock, self._lost, self._heard, self._read_s = clock, lost, heard, read_s
        self._reader = hiredis.Reader()
        self._waiters: deque[Waiter] = deque()
        self._out: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._kept: object = None
        self._watch: asyncio.TimerHandle | None = None
        self._ringing: asyncio.TimerHandle | None = None
        self._since = self._progress = clock.monotonic()
        self._doubted, self._unsent = -1.0, 0
        self._channel, self._pinged, self._refused = "", False, False
        self._why: Exception | None = None
        self.ended: asyncio.Future[None] = self._loop.create_future()

    def take(self, transport: asyncio.Transport, kept: object) -> None:
        """Begin on a connected socket. `kept` is what must live as long as the socket."""
        self._transport, self._kept = transport, kept
        self._since = self._clock.monotonic()
        transport.set_protocol(self)

    @property
    def lived_s(self) -> float:
        """How long it has had its socket."""
        return self._clock.monotonic() - self._since

    def send(self, *parts: Part) -> Waiter:
        """Send a command at the end of this turn of the loop. The future gets the reply, or the loss."""
        waiter = self._loop.create_future()
        if self._transport is None:
            waiter.set_exception(ConnectionResetError("it had ended before"))
            return waiter
        self._write(parts)
        if not self._waiters:
            self._progress = self._clock.monotonic()
            self._arm(self._read_s)
        self._waiters.append(waiter)
        return waiter

    def subscribe(self, channel: str) -> None:
        """Ask for a channel's messages, again and again where that is refused. What comes, confirmation and refusal
        too, goes to `heard`."""
        self._channel = channel
        self._write(("SUBSCRIBE", channel))
        self._ringing = self._loop.call_later(_PING_S, self._ring)

    def end(self, why: Exception | None = None) -> None:
        """End the socket now. Who waits gets `why`."""
        if self._transport is not None:
            self._why = self._why or why
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._progress, self._pinged = self._clock.monotonic(), False
        self._reader.feed(data)
        try:
            while (reply := self._reader.gets()) is not False:
                self._answer(reply)
        except hiredis.ProtocolError as error:
            self.end(error)

    def connection_lost(self, exc: Exception | None) -> None:
        why = self._why or exc
        self._transport = None
        for timer in (self._watch, self._ringing):
            if timer is not None:
                timer.cancel()
        waiters, self._waiters = self._waiters, deque()
        self._out.clear()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(why or ConnectionResetError("closed by the server"))
        self._kept = None
        self.ended.set_result(None)
        self._lost(self, why)

    def _answer(self, reply: Any) -> None:
        if self._heard is not None:
            self._refused = isinstance(reply, hiredis.ReplyError)
            self._heard(reply)
            return
        if not self._waiters:
            # Said unasked, before the server hangs up: "max number of clients reached".
            self.end(ConnectionResetError(str(reply)))
            return
        waiter = self._waiters.popleft()
        if not waiter.done():
            waiter.set_result(reply)

    def _write(self, parts: tuple[Part, ...]) -> None:
        packed = hiredis.pack_command(parts)  # type: ignore[arg-type] # its hints leave out unions
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(packed)

    def _flush(self) -> None:
        if self._transport is not None:
            self._transport.write(b"".join(self._out))
            self._unsent = self._transport.get_write_buffer_size()
            if self._unsent > _LARGE and self._watch is not None:
                self._watch.cancel()
                self._watch = None
                self._arm(self._read_s / 4)
        self._out.clear()

    def _ring(self) -> None:
        """Nothing may have been heard for long. Any word will do."""
        left = self._progress + _PING_S - self._clock.monotonic()
        if left <= 0 and not self._pinged:
            self._pinged, self._progress = True, self._clock.monotonic()
            self._write(("SUBSCRIBE", self._channel) if self._refused else ("PING",))
            self._arm(self._read_s)
        self._ringing = self._loop.call_later(left if left > 0 else _PING_S, self._ring)

    def _arm(self, seconds: float) -> None:
        if self._watch is None:
            self._watch = self._loop.call_later(seconds, self._look)

    def _look(self) -> None:
        """The server owes an answer, perhaps for too long. One timer a socket, not one a command."""
        self._watch = None
        if self._transport is None or not (self._waiters or self._pinged):
            return
        unsent = self._transport.get_write_buffer_size()
        if unsent < self._unsent:
            self._progress = self._clock.monotonic()
        self._unsent = unsent
        left = self._progress + self._read_s - self._clock.monotonic()
        if left > 0:
            self._arm(min(left, self._read_s / 4) if unsent > _LARGE else left)
        elif self._doubted != self._progress:
            # It may be this loop that was blocked: then the answer is there, and is read before long.
            self._doubted = self._progress
            self._arm(_GRACE_S)
        else:
            self.end(Silence())
