"""The SQLite store, put together."""

from __future__ import annotations

from pathlib import Path

from workfleet.ports.clock import Clock
from workfleet.ports.pulse import Pulse, PulseRequest

from ..news import News
from .exam import SqliteExam
from .fleet import SqliteFleet
from .jobs import SqliteJobs
from .keys import SqliteKeys
from .lane import Step
from .lanes import Lanes
from .ledger import SqliteLedger
from .locks import SqliteLocks
from .pulse import take_pulse
from .queues import SqliteQueues
from .schedules import SqliteSchedules
from .trouble import sqlite_url


class SqliteStore:
    """A `Store` on one file. Several processes, and several apps, may have the file open.

    Its time is the clock's, as it is: the file remembers no time of its own. A clock that is set back delays what is
    due by as much; no lease then ends early.
    """

    def __init__(self, path: Path, app: str, clock: Clock, lanes: Lanes) -> None:
        self.url = sqlite_url(path)
        self.app = app
        self._clock, self._lanes = clock, lanes
        self._news = News(lanes.wakes, clock)
        self.jobs = SqliteJobs(app, lanes)
        self.queues = SqliteQueues(app, lanes)
        self.schedules = SqliteSchedules(app, lanes)
        self.ledger = SqliteLedger(app, lanes)
        self.locks = SqliteLocks(app, lanes)
        self.keys = SqliteKeys(app, lanes)
        self.fleet = SqliteFleet(app, lanes)
        self.exam = SqliteExam(path, lanes)

    @classmethod
    async def open(cls, path: Path, *, app: str, clock: Clock, create: bool) -> SqliteStore:
        """Open a file, and make it and its folder when it is not there and `create` is true.

        The store belongs to the running event loop. Raises `StoreUnavailable`, which says what is wrong with the file.
        """
        lanes = Lanes(path, app, clock, create=create)
        try:
            await lanes.write(lambda _: None)
        except BaseException:
            await lanes.close()
            raise
        return cls(path, app, clock, lanes)

    async def now_ms(self) -> int:
        return self._clock.now_ms()

    async def pulse(self, request: PulseRequest) -> Pulse:
        pulse, queues = await self._lanes.write(lambda step: take_pulse(step, self.app, request))
        self._news.hear(pulse.schedules, self._clock.now_ms(), queues)
        return pulse

    async def check(self) -> None:
        """Write one row to the disk, as a claim does."""

        def operation(step: Step) -> None:
            step.change("UPDATE wf_meta SET value = ? WHERE key = 'checked_ms'", step.now)

        await self._lanes.write(operation)

    async def close(self) -> None:
        await self._lanes.close()
