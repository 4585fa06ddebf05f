"""The store in memory, put together. One event loop, one app; nothing in it awaits, so every call is one step."""

from __future__ import annotations

from workfleet.ports.clock import Clock
from workfleet.ports.pulse import Pulse, PulseRequest

from ..news import News
from ..wakes import Wakes
from .book import Book
from .exam import MemoryExam
from .fleet import MemoryFleet
from .jobs import MemoryJobs
from .keys import MemoryKeys
from .ledger import MemoryLedger
from .locks import MemoryLocks
from .pulse import round_trip, stirring
from .queues import MemoryQueues
from .schedules import MemorySchedules


class MemoryStore:
    """A `Store`. Its time is the clock's, so that a test's clock drives leases and due times."""

    url = "memory://"

    def __init__(self, app: str, clock: Clock) -> None:
        self.app = app
        self._clock = clock
        wakes = Wakes(clock)
        self.locks = MemoryLocks(clock)
        self.keys = MemoryKeys(clock)
        self._news = News(wakes, clock)
        self._book = book = Book(clock, wakes, sweeps=(self.keys.sweep, self.locks.sweep))
        self.jobs = MemoryJobs(book)
        self.queues = MemoryQueues(book)
        self.schedules = MemorySchedules(book, wakes)
        self.ledger = MemoryLedger(clock)
        self.fleet = MemoryFleet(clock)
        self.exam = MemoryExam()

    async def now_ms(self) -> int:
        return self._clock.now_ms()

    async def pulse(self, request: PulseRequest) -> Pulse:
        settled = round_trip(self._book, request)
        worker = None if request.worker is None else self.fleet.beat(request.worker, request)
        revision = self.schedules.revision
        queues = [name for name in request.queues if stirring(self._book, name, request.within_ms)]
        self._news.hear(revision, self._clock.now_ms(), queues)
        return Pulse(settled, revision, worker)

    async def check(self) -> None:
        """Memory is always there."""

    async def close(self) -> None:
        """What it held goes with the object."""
