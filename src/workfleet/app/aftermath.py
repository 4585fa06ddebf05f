"""What a worker does after the fact of each run: the run ledger and the listeners of its modules, put together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from dishka import AsyncContainer

from workfleet.events import JobRecovered
from workfleet.model.ledger import LedgerKeep
from workfleet.ports.stores import Store
from workfleet.schedules.ledger import Ledger
from workfleet.settings.sections import SchedulerSettings
from workfleet.supervision.service import Service

from .builtins import Basis
from .listeners import ListenerLine
from .policies import milliseconds
from .threads import HandlerThreads


class Aftermath:
    """Loops that hear of runs from the bus. `services` stop after everything that publishes."""

    def __init__(self, ledger: Ledger | None, lines: Sequence[ListenerLine], *, age_ms: int) -> None:
        """`age_ms` is how long rows of the ledger are kept, be there one or not."""
        self._ledger, self._lines, self.age_ms = ledger, lines, age_ms
        self.services: list[Service] = [*lines, *([ledger] if ledger else [])]

    @classmethod
    async def of(
        cls, basis: Basis, store: Store, container: AsyncContainer, threads: HandlerThreads, worker: str
    ) -> Aftermath:
        """Everything that hears of runs in this process; from now on it does."""
        settings, bus = await container.get(SchedulerSettings), basis.bus
        keep = keep_of(settings)
        ledger = None
        if keep is not None:
            ledger = Ledger(store.ledger, keep, worker=worker, clock=basis.clock, publish=bus.publish)
        listeners = [each for module in basis.composition.modules for each in module.listeners]
        lines = [ListenerLine(each, container, threads, bus.publish) for each in listeners]
        for line in lines:
            bus.subscribe(line)
        if ledger is not None:
            bus.subscribe(ledger)
        return cls(ledger, lines, age_ms=milliseconds(settings.history_age))

    def recovered(self, event: JobRecovered) -> None:
        """The supervisor has taken over a run, and has written of it already: the listeners are told here."""
        for line in self._lines:
            if (hear := line.route(JobRecovered)) is not None:
                hear(event)

    async def catch_up(self) -> None:
        """Until all that has happened is told and written."""
        for line in self._lines:
            await line.catch_up()
        if self._ledger is not None:
            await self._ledger.flush()

    async def finish(self, timeout_ms: int) -> None:
        """The same at the end of a process, within a time: half of it for the listeners, the rest for the ledger."""
        await asyncio.gather(*(line.finish(timeout_ms // 2) for line in self._lines))
        if self._ledger is not None:
            await self._ledger.finish(timeout_ms // 2)


def keep_of(settings: SchedulerSettings) -> LedgerKeep | None:
    """How long the run ledger keeps its rows; None: there is none."""
    if settings.history_count == 0:
        return None
    return LedgerKeep(milliseconds(settings.history_age), settings.history_count)
