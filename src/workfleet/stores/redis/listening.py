"""Hears, on a connection of its own, what other processes say has changed, and wakes who waits here.

A hint, nothing more: while there is no connection nothing is heard, so whoever waits polls as well.
"""

from __future__ import annotations

import asyncio
from typing import Any

from workfleet.errors import StoreUnavailable
from workfleet.ports.clock import Clock

from ..wakes import Wakes
from . import trouble
from .connection import READ_S
from .link import Link
from .reconnecting import Dial, connected


class Listener:
    """A subscription to an app's channel that comes back after every loss. For one event loop."""

    def __init__(self, dial: Dial, wakes: Wakes, *, channel: str, sender: str, store: str, clock: Clock) -> None:
        self._dial, self._wakes, self._clock, self._store = dial, wakes, clock, store
        self._channel, self._sender = channel, sender.encode()
        self._link: Link | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._first: asyncio.Future[None] | None = None
        self._lived_s: float | None = None
        self._closed = False

    async def start(self) -> None:
        """Subscribe. Raises `StoreUnavailable` when the first attempt fails; afterwards it tries for ever."""
        self._first = asyncio.get_running_loop().create_future()
        self._keep()
        try:
            async with asyncio.timeout(READ_S):
                await self._first
        except TimeoutError:
            raise trouble.silent(self._store, READ_S) from None

    async def close(self) -> None:
        """Hear nothing any more."""
        self._closed = True
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait({self._keeper})
        if self._link is not None:
            link = self._link
            link.end()
            await link.ended

    def _keep(self) -> None:
        if not self._closed:
            self._keeper = asyncio.create_task(self._subscribe())

    async def _subscribe(self) -> None:
        lived_s, self._lived_s = self._lived_s, None
        self._link = await connected(self._dial, self._made, self._clock, failed=self._failed, lived_s=lived_s)
        self._link.subscribe(self._channel)

    def _made(self) -> Link:
        return Link(self._clock, self._lost, read_s=READ_S, heard=self._hear)

    def _failed(self, error: StoreUnavailable) -> None:
        if self._first is not None and not self._first.done():
            self._first.set_exception(error)

    def _lost(self, link: Link, why: Exception | None) -> None:
        if link is self._link:
            self._link, self._lived_s = None, link.lived_s
            self._keep()

    def _hear(self, reply: Any) -> None:
        if not isinstance(reply, list):
            # An error: no right to the channel, or the server is loading. Polling goes on.
            self._failed(trouble.refused(self._store, str(reply)))
        elif reply[0] == b"subscribe":
            if self._first is not None and not self._first.done():
                self._first.set_result(None)
            else:
                # Something may have changed while nothing was heard.
                self._wakes.announce_all()
        elif reply[0] == b"message":
            self._told(reply[2])

    def _told(self, message: bytes) -> None:
        sender, *topics = message.split(b"\n")
        if sender != self._sender:
            self._wakes.announce(topic.decode(errors="replace") for topic in topics)
