"""Waits for the markers by which BullMQ says that a queue has something new, for queues that other programs fill too.

BullMQ's own programs send no message to us: they put a marker into a sorted set, and whoever pops it looks. It is
popped only while somebody here waits for the queue; else it is put back for others.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from workfleet.errors import StoreUnavailable
from workfleet.ports.clock import Clock

from ..wakes import Wakes, queue_topic
from .connection import Connection
from .layout import Layout

BLOCK_S = 5
"""How long a pop waits at the server: 12 commands a minute, for all queues of a process together."""
_AGAIN_S = 1.0


class Markers:
    """Pops markers, on a connection of its own, while somebody waits. For one event loop."""

    def __init__(self, connection: Connection, layout: Layout, wakes: Wakes, clock: Clock) -> None:
        self._connection, self._layout, self._wakes, self._clock = connection, layout, wakes, clock
        self._wanted: Counter[str] = Counter()
        self._popping: asyncio.Task[None] | None = None

    @contextmanager
    def wanted(self, queues: Sequence[str]) -> Iterator[None]:
        """Within the block, a marker of one of these queues announces the queue."""
        self._wanted.update(queues)
        if self._popping is None or self._popping.done():
            self._popping = asyncio.create_task(self._pop())
        try:
            yield
        finally:
            self._wanted.subtract(queues)
            self._wanted += Counter()

    async def close(self) -> None:
        """Wait for no marker any more."""
        if self._popping is not None:
            self._popping.cancel()
            await asyncio.wait({self._popping})
        await self._connection.close()

    async def _pop(self) -> None:
        while self._wanted:
            queues = {self._layout.queue(name, "marker").encode(): name for name in self._wanted}
            try:
                popped = await self._connection.command("BZPOPMIN", *queues, BLOCK_S)
                if popped is not None:
                    key, member, score = popped
                    await self._popped(queues[key], key, member, score)
            except StoreUnavailable:
                # Polling goes on meanwhile. A server that refuses at once is not asked in a circle.
                await self._clock.sleep(_AGAIN_S)

    async def _popped(self, queue: str, key: bytes, member: bytes, score: bytes) -> None:
        if self._wanted[queue]:
            self._wakes.announce([queue_topic(queue)])
        else:
            await self._connection.command("ZADD", key, "NX", score, member)
