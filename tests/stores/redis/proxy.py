"""A network between store and server that a test can break: it counts what passes, and swallows it when told."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self


class Proxy:
    """Forwards to a port. `silent`: packets are dropped, no connection is reset."""

    def __init__(self, port: int) -> None:
        self._to = port
        self.silent = False
        self.sent: list[bytes] = []
        """What clients sent, as it came."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._to)
        for one, other, kept in ((reader, back, self.sent), (there, writer, None)):
            task = asyncio.create_task(self._pump(one, other, kept))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, one: asyncio.StreamReader, other: asyncio.StreamWriter, kept: list[bytes] | None) -> None:
        try:
            while data := await one.read(1 << 16):
                if self.silent:
                    continue
                if kept is not None:
                    kept.append(data)
                other.write(data)
        except ConnectionError:
            pass
        finally:
            other.close()
