"""The worker's sign of life in the store. It brings back what an operator told the worker."""

from __future__ import annotations

from collections.abc import Callable

from workfleet.errors import StoreUnavailable
from workfleet.events import Event, WorkerInstructed
from workfleet.model.fleet import Instruction, WorkerRecord
from workfleet.ports.clock import Clock
from workfleet.ports.stores import FleetStore
from workfleet.queues.exchange import Exchange


class FleetBeat:
    """A Service. A record that somebody deleted while we live is registered again.

    A worker that was told anything claims no more, until that is taken back. Its schedules go on: what they enqueue is
    for the others. `then` hears of each change, to drain the worker when it is told "stop" or "recycle"."""

    name = "fleet beat"

    def __init__(
        self,
        fleet: FleetStore,
        record: WorkerRecord,
        exchange: Exchange,
        then: Callable[[Instruction | None], None],
        *,
        every_ms: int,
        clock: Clock,
        publish: Callable[[Event], None],
    ) -> None:
        self._fleet, self._record, self._exchange, self._then = fleet, record, exchange, then
        self._every_s, self._clock, self._publish = every_ms / 1000, clock, publish
        self._instruction: Instruction | None = None

    async def serve(self) -> None:
        while True:
            await self._clock.sleep(self._every_s)
            try:
                await self._beat()
            except StoreUnavailable:
                continue  # whoever needs the store reports the outage

    async def _beat(self) -> None:
        record = await self._fleet.beat(self._record.id, active=self._exchange.active)
        if record is None:
            await self._fleet.register(self._record)
        instruction = None if record is None else record.instruction
        if instruction != self._instruction:
            self._instruction = instruction
            self._told(instruction)

    def _told(self, instruction: Instruction | None) -> None:
        self._publish(WorkerInstructed(worker=self._record.id, instruction=instruction or "work"))
        if instruction is None:
            self._exchange.resume()
        else:
            self._exchange.pause()
        self._then(instruction)
