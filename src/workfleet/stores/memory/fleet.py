"""Who works here, in memory."""

from __future__ import annotations

from msgspec.structs import replace

from workfleet.model.fleet import Instruction, PoolOrder, WorkerRecord
from workfleet.ports.clock import Clock
from workfleet.ports.pulse import PulseRequest

from ..orders import after, without


class MemoryFleet:
    """A `FleetStore`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._workers: dict[str, WorkerRecord] = {}

    async def register(self, worker: WorkerRecord) -> None:
        now = self._clock.now_ms()
        self._workers[worker.id] = replace(worker, instruction=None, pools=(), orders=(), started_ms=now, seen_ms=now)

    def beat(self, worker_id: str, said: PulseRequest) -> WorkerRecord | None:
        """A worker's sign of life. Returns its record, None when it is gone."""
        record = self._workers.get(worker_id)
        if record is None:
            return None
        record.seen_ms, record.active, record.pools = self._clock.now_ms(), said.active, said.pools
        record.orders = without(record.orders, said.obeyed)
        return replace(record)

    async def instruct(self, worker_id: str, instruction: Instruction | None) -> bool:
        record = self._workers.get(worker_id)
        if record is not None:
            record.instruction = instruction
        return record is not None

    async def order(self, worker_id: str, order: PoolOrder) -> bool:
        record = self._workers.get(worker_id)
        if record is not None:
            record.orders = after(record.orders, order)
        return record is not None

    async def workers(self) -> list[WorkerRecord]:
        return [replace(self._workers[worker_id]) for worker_id in sorted(self._workers)]

    async def forget(self, worker_id: str) -> bool:
        return self._workers.pop(worker_id, None) is not None
