"""The store's connection: one socket, commands of one turn of the loop together, and a new socket after each loss.

After a loss every waiting call fails with `StoreUnavailable`: what was sent may have happened, and every call of the
store may be repeated. New calls wait for the attempt to connect that is under way, and fail with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import hiredis

from workfleet.errors import StoreUnavailable
from workfleet.ports.clock import Clock

from . import trouble
from .link import Link, Part, Silence
from .reconnecting import Dial, connected
from .scripts import Script

READ_S = 10.0
"""A server that owes an answer for this long is taken for lost."""


class Connection:
    """Commands and scripts on one socket of a server. For one event loop."""

    def __init__(self, dial: Dial, *, store: str, clock: Clock, read_s: float = READ_S) -> None:
        self._dial, self._store, self._clock, self._read_s = dial, store, clock, read_s
        self._link: Link | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._waiting: list[asyncio.Future[Link]] = []
        self._lived_s: float | None = None
        self._closed = False

    async def run(self, script: Script, keys: Sequence[str], args: Sequence[Part]) -> Any:
        """Run a script, by its hash, and by its text where the server does not know it (any more)."""
        try:
            return await self._send("EVALSHA", script.sha, len(keys), *keys, *args)
        except _UnknownScript:
            return await self._send("EVAL", script.text, len(keys), *keys, *args)

    async def command(self, *parts: Part) -> Any:
        """Send a command. Raises `StoreUnavailable` also for what the server refuses."""
        return await self._send(*parts)

    async def close(self) -> None:
        """End it. Waiting calls fail; nothing connects any more."""
        self._closed = True
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait({self._keeper})
        self._fail(trouble.closed(self._store))
        if self._link is not None:
            link = self._link
            link.end(trouble.closed(self._store))
            await link.ended

    async def _send(self, *parts: Part) -> Any:
        link = self._link or await self._linked()
        try:
            reply = await link.send(*parts)
        except StoreUnavailable:
            raise
        except Silence:
            raise trouble.silent(self._store, self._read_s) from None
        except OSError as error:
            raise trouble.lost(self._store, error) from None
        except hiredis.HiredisError as error:
            raise trouble.lost(self._store, error) from None
        if isinstance(reply, hiredis.ReplyError):
            raise self._refused(link, str(reply))
        return reply

    def _refused(self, link: Link, said: str) -> Exception:
        code = trouble.code_of(said)
        if code == trouble.NOSCRIPT:
            return _UnknownScript()
        error = trouble.refused(self._store, said)
        if trouble.wants_new_connection(code):
            link.end(error)
        return error

    async def _linked(self) -> Link:
        if self._closed:
            raise trouble.closed(self._store)
        waiter: asyncio.Future[Link] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._keep()
        return await waiter

    def _keep(self) -> None:
        if not self._closed and (self._keeper is None or self._keeper.done()):
            self._keeper = asyncio.create_task(self._connect())
            self._keeper.add_done_callback(self._kept)

    def _kept(self, keeper: asyncio.Task[None]) -> None:
        """Nobody waits for ever where an attempt ended as none should."""
        if not keeper.cancelled() and (error := keeper.exception()) is not None:
            self._fail(error)

    async def _connect(self) -> None:
        lived_s, self._lived_s = self._lived_s, None
        self._link = link = await connected(self._dial, self._made, self._clock, failed=self._fail, lived_s=lived_s)
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(link)

    def _made(self) -> Link:
        return Link(self._clock, self._lost, read_s=self._read_s)

    def _fail(self, error: BaseException) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_exception(error)

    def _lost(self, link: Link, why: Exception | None) -> None:
        if link is self._link:
            self._link, self._lived_s = None, link.lived_s
            self._keep()


class _UnknownScript(Exception):
    """The server has no script of that hash."""
