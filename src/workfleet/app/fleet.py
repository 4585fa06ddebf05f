"""The worker's sign of life in the store."""

from __future__ import annotations

from workfleet.errors import StoreUnavailable
from workfleet.model.fleet import WorkerRecord
from workfleet.ports.clock import Clock
from workfleet.ports.stores import Store

_EVERY_S = 30.0


class FleetBeat:
    """A Service. A record that somebody deleted while we live is registered again."""

    name = "fleet beat"

    def __init__(self, store: Store, record: WorkerRecord, clock: Clock) -> None:
        self._store, self._record, self._clock = store, record, clock

    async def serve(self) -> None:
        while True:
            await self._clock.sleep(_EVERY_S)
            try:
                if not await self._store.fleet.beat(self._record.id):
                    await self._store.fleet.register(self._record)
            except StoreUnavailable:
                continue  # whoever needs the store reports the outage
