"""Rows of the run ledger for runs whose worker died: nobody but who recovers them can write those."""

from __future__ import annotations

from collections.abc import Callable

from workfleet.events import Event, JobRecovered
from workfleet.model.ledger import LedgerKeep
from workfleet.ports.clock import Clock
from workfleet.ports.stores import Store
from workfleet.schedules.ledger import Ledger

_WRITE_MS = 2_000


class CrashRows:
    """Publishes what a recovery tells, and keeps it to be written when the recovery is over."""

    def __init__(self, publish: Callable[[Event], None]) -> None:
        self._publish = publish
        self.recovered: list[JobRecovered] = []

    def publish(self, event: Event) -> None:
        self._publish(event)
        if isinstance(event, JobRecovered):
            self.recovered.append(event)

    async def write(self, store: Store, keep: LedgerKeep, *, worker: str, clock: Clock) -> None:
        """Write the rows, as far as the store takes them within a short time; what is lost is told."""
        ledger = Ledger(store.ledger, keep, worker=worker, clock=clock, publish=self._publish)
        for event in self.recovered:
            ledger.recovered(event)
        await ledger.finish(_WRITE_MS)
