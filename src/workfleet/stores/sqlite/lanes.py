"""A store's two lanes, one that writes and one that reads, and its wake-ups: what its parts work through."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from workfleet.ports.clock import Clock

from ..wakes import Wakes
from .bell import Bell, Ring
from .connect import Database, Patience, connect, connect_reader
from .lane import Lane, Step

_T = TypeVar("_T")


class Lanes:
    """Reads have a lane of their own, so that a long listing holds up no claim. They see what was answered before."""

    def __init__(self, path: Path, app: str, clock: Clock, *, create: bool) -> None:
        self._path, self._clock = path, clock
        self._create = create
        self._patience = Patience()
        self.wakes = Wakes(clock)
        self._bell = Bell(path, app)
        self._loop = asyncio.get_running_loop()
        self._writer = Lane(path, self._connect, kind="write", clock=clock, after=self._committed)
        self._reader: Lane | None = None
        self.writes = 0
        """Steps in the lane that writes so far."""

    def now_ms(self) -> int:
        """The store's time."""
        return self._clock.now_ms()

    async def write(self, operation: Callable[[Step], _T]) -> _T:
        """Run a step that may change something."""
        self.writes += 1
        return await self._writer.run(operation)

    async def read(self, operation: Callable[[Step], _T]) -> _T:
        """Run a step that changes nothing."""
        if self._reader is None:
            self._reader = Lane(
                self._path, lambda: connect_reader(self._path, patience=self._patience), kind="read", clock=self._clock
            )
        return await self._reader.run(operation)

    def look(self, topics: Iterable[str]) -> None:
        """What changes from now on is news for the next `wait`."""
        self._bell.listen(self._heard)
        self.wakes.looked(topics)

    async def wait(self, topics: Iterable[str], timeout_ms: int) -> bool:
        """Until one of the topics changes, here or in another process."""
        self._bell.listen(self._heard)
        return await self.wakes.wait(topics, timeout_ms)

    async def close(self) -> None:
        """Finish what was begun, and let go of the file. Cancelled, it lets go all the same, without waiting for it."""
        self._patience.end()
        try:
            if self._reader is not None:
                await self._reader.close()
            await self._writer.close()
        finally:
            self._writer.end()
            self._bell.close()

    def _connect(self) -> Database:
        database = connect(self._path, create=self._create, patience=self._patience)
        # Only the first time: a file that disappears later is not silently replaced by an empty one.
        self._create = False
        return database

    def _committed(self, topics: set[str]) -> None:
        """In the writer's thread: tell this process, then the others."""
        try:
            self._loop.call_soon_threadsafe(self.wakes.announce, topics)
        except RuntimeError:
            pass  # the loop is closed, so nobody waits in it
        self._bell.ring(topics)

    def _heard(self, ring: Ring) -> None:
        if ring.topics is None:
            self.wakes.announce_all()
        else:
            self.wakes.announce(ring.topics)
