"""What is said about queues, in memory."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from workfleet.model.limits import QueueLimits, QueueRecord

from ..wakes import queue_topic
from .book import Book


class MemoryQueues:
    """A `QueueStore`."""

    def __init__(self, book: Book) -> None:
        self._book = book

    async def set_limits(self, limits: Mapping[str, QueueLimits]) -> None:
        for name, said in limits.items():
            self._book.queue(name).set_limits(structs.replace(said, groups=dict(said.groups)))
        self._book.wakes.announce(map(queue_topic, limits))

    async def set_paused(self, queue: str, *, paused: bool) -> bool:
        there = self._book.queues.get(queue)
        if (there is not None and there.record.paused) == paused:
            return False
        there = self._book.queue(queue)
        there.record = structs.replace(there.record, paused=paused)
        if not paused:
            self._book.wakes.announce([queue_topic(queue)])
        return True

    async def all(self) -> dict[str, QueueRecord]:
        return {name: self._book.queues[name].record for name in sorted(self._book.queues)}
