"""Waits for the markers by which BullMQ says that a queue has something new.

Whatever makes a job ready puts a marker into a sorted set, of our programs as of BullMQ's, and who pops it looks: of an
idle fleet one worker is woken, not all. A worker that takes as many jobs as it can puts the marker back for the next
one. It is a hint and can be lost: whoever waits polls as well.
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

BLOCK_S = 45
"""How long a pop waits at the server, for all queues of a process together: longer than the built-in heartbeat, whose
marker ends it anyway."""
_AGAIN_S = 1.0


class Markers:
    """Pops markers, on a connection of its own, while somebody waits. For one event loop.

    `others` is the connection for all else, and `sender` is the store's own name among the app's. A marker that comes
    when nobody here waits for its queue any more is put back.
    """

    def __init__(
        self, connection: Connection, others: Connection, layout: Layout, wakes: Wakes, clock: Clock, *, sender: str
    ) -> None:
        self._connection, self._others, self._layout = connection, others, layout
        self._wakes, self._clock = wakes, clock
        self._wanted: Counter[str] = Counter()
        self._asked: frozenset[str] = frozenset()
        """The queues that the pop at the server is about."""
        self._nudge_key = layout.named("nudge", sender)
        self._popping: asyncio.Task[None] | None = None
        self._nudging: asyncio.Task[None] | None = None

    @contextmanager
    def wanted(self, queues: Sequence[str]) -> Iterator[None]:
        """Within the block, a marker of one of these queues announces the queue."""
        self._wanted.update(queues)
        if self._popping is None or self._popping.done():
            self._popping = asyncio.create_task(self._pop())
        elif not self._asked.issuperset(queues) and (self._nudging is None or self._nudging.done()):
            self._nudging = asyncio.create_task(self._nudge())
        try:
            yield
        finally:
            self._wanted.subtract(queues)
            self._wanted += Counter()

    async def close(self) -> None:
        """Wait for no marker any more."""
        tasks = {task for task in (self._popping, self._nudging) if task is not None}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._connection.close()

    async def _pop(self) -> None:
        while self._wanted:
            self._asked = frozenset(self._wanted)
            queues = {self._layout.queue(name, "marker").encode(): name for name in self._asked}
            try:
                popped = await self._connection.command("BZPOPMIN", *queues, self._nudge_key, BLOCK_S)
                if popped is not None:
                    key, member, score = popped
                    if key in queues:
                        await self._popped(queues[key], key, member, score)
            except StoreUnavailable:
                # Polling goes on meanwhile. A server that refuses at once is not asked in a circle.
                await self._clock.sleep(_AGAIN_S)

    async def _popped(self, queue: str, key: bytes, member: bytes, score: bytes) -> None:
        if self._wanted[queue]:
            self._wakes.announce([queue_topic(queue)])
        else:
            await self._connection.command("ZADD", key, "NX", score, member)

    async def _nudge(self) -> None:
        """End the pop at the server, for the next one to be about other queues."""
        try:
            added = self._others.command("ZADD", self._nudge_key, 0, "0")
            # Where it is not popped, nobody needs it.
            await asyncio.gather(added, self._others.command("PEXPIRE", self._nudge_key, BLOCK_S * 1_000))
        except StoreUnavailable:
            return  # the pop is over as well
