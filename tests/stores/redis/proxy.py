"""A network between store and server that a test can break: it counts what passes, swallows it, slows it down, cuts it
in the middle, and loses one call, told by its script's name, before or after the server has carried it out."""

from __future__ import annotations

import asyncio
import hashlib
import socket
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import hiredis

import workfleet.stores.redis
from workfleet.stores.redis.scripts import Script

When = Literal["before", "after", "within"]
"""A call never reaches the server; or its reply never arrives; or half of its reply does. The connection ends then."""
_LUA = Path(workfleet.stores.redis.__file__).with_name("lua")
_READ = 1 << 16


class Proxy:
    """Forwards to a port.

    `silent`: packets are dropped, no connection is reset. `pace`: bytes a packet and seconds after it. `changed`
    replaces what the server says."""

    def __init__(self, port: int) -> None:
        self._to = port
        self.silent = False
        self.pace: tuple[int, float] | None = None
        self.changed: Callable[[bytes], bytes] | None = None
        self.sent: list[bytes] = []
        """What clients sent, as it came."""
        self.calls: Counter[str] = Counter()
        """How often each script, or command, was called. A call by hash that the server does not know counts too."""
        self.unanswered: Counter[str] = Counter()
        """Of these, how many wait for a reply."""
        self.lost: list[str] = []
        self.connections = 0
        self._names = {Script.load(path.stem).sha: path.stem for path in _LUA.glob("*.lua")}
        self._planned: dict[tuple[str, int], When] = {}
        self._pairs: dict[asyncio.StreamWriter, asyncio.StreamWriter] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        listening = socket.socket()
        # What waits in a large buffer of the system cannot be seen from outside.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _READ)
        listening.bind(("127.0.0.1", 0))
        self._server = await asyncio.start_server(self._serve, sock=listening)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self.reset()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def lose(self, name: str, *, number: int = 1, when: When) -> None:
        """Lose one call of that name, counted from 1, and its connection."""
        self._planned[name, number] = when

    def reset(self) -> None:
        """End every connection at once."""
        for client, server in self._pairs.items():
            client.transport.abort()
            server.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            writer.transport.abort()
            return
        self._pairs[writer] = back
        owed = _Owed()
        for pump in (self._requests(reader, back, owed), self._replies(there, writer, owed)):
            task = asyncio.create_task(self._until_lost(pump, writer, owed))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _until_lost(self, pump: Coroutine[Any, Any, None], writer: asyncio.StreamWriter, owed: _Owed) -> None:
        cut = False
        try:
            await pump
        except (ConnectionError, _Cut):
            cut = True
        finally:
            self.unanswered.subtract(owed.names)
            owed.names.clear()
            for each in (writer, self._pairs.pop(writer, None)):
                if each is not None:
                    (each.transport.abort if cut else each.transport.close)()

    async def _requests(self, reader: asyncio.StreamReader, back: asyncio.StreamWriter, owed: _Owed) -> None:
        parser = hiredis.Reader()
        while data := await self._read(reader):
            if self.silent:
                continue
            self.sent.append(data)
            parser.feed(data)
            while (command := parser.gets()) is not False:
                await self._asked(command, back, owed)

    async def _asked(self, command: list[bytes], back: asyncio.StreamWriter, owed: _Owed) -> None:
        name = self._name(command)
        self.calls[name] += 1
        when = self._planned.pop((name, self.calls[name]), None)
        if when is not None:
            self.lost.append(f"{name} {self.calls[name]} {when}")
            await owed.nothing()
            if when == "before":
                raise _Cut
            owed.cut = when
        owed.replies += 1
        owed.names.append(name)
        self.unanswered[name] += 1
        back.write(hiredis.pack_command(tuple(command)))
        await back.drain()
        if when is not None:
            await asyncio.Event().wait()

    async def _replies(self, there: asyncio.StreamReader, writer: asyncio.StreamWriter, owed: _Owed) -> None:
        parser = hiredis.Reader()
        while data := await self._read(there):
            if self.silent:
                continue
            if owed.cut == "after":
                raise _Cut
            if owed.cut == "within":
                writer.write(data[: len(data) // 2])
                return
            passed = self.changed(data) if self.changed else data
            writer.write(passed)
            await writer.drain()
            parser.feed(data)
            while parser.gets() is not False:
                owed.answered()
                # What is published was asked by nobody.
                if passed and owed.names:
                    self.unanswered[owed.names.popleft()] -= 1

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        if self.pace is None:
            return await reader.read(_READ)
        size, seconds = self.pace
        await asyncio.sleep(seconds)
        return await reader.read(size)

    def _name(self, command: list[bytes]) -> str:
        word = command[0].decode().upper()
        if word == "EVALSHA":
            return self._names.get(command[1].decode(), "a script")
        if word == "EVAL":
            return self._names.get(hashlib.sha1(command[1], usedforsecurity=False).hexdigest(), "a script")
        return word


class _Cut(Exception):
    """The connection ends here."""


class _Owed:
    """How many replies the server owes on one connection."""

    def __init__(self) -> None:
        self.replies = 0
        self.cut: When | None = None
        self.names = deque[str]()
        """What was asked and has no answer yet."""
        self._changed = asyncio.Event()

    def answered(self) -> None:
        self.replies -= 1
        self._changed.set()

    async def nothing(self) -> None:
        while self.replies > 0:
            self._changed.clear()
            await self._changed.wait()
