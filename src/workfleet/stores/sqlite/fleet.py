"""Who works here, in SQLite."""

from __future__ import annotations

from typing import get_args

import msgspec

from workfleet.model.fleet import Instruction, PoolOrder, ProcessIdentity, WorkerRecord
from workfleet.ports.pulse import PulseRequest

from ..orders import after, handlers_from, orders_from, pools_from, without
from .lane import Row, Step
from .lanes import Lanes

_REGISTER = """
INSERT OR REPLACE INTO wf_worker
  (app, id, host, boot_id, pid, started, queues, handlers, release, active, started_ms, seen_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_BEAT = "UPDATE wf_worker SET seen_ms = ?, active = ?, pools = ? WHERE app = ? AND id = ?"
_WORKER = """
SELECT id, host, boot_id, pid, started, queues, release, started_ms, seen_ms, instruction, active, handlers, pools,
  orders
FROM wf_worker WHERE app = ?
"""
_ORDERS = "SELECT orders FROM wf_worker WHERE app = ? AND id = ?"
_ORDER = "UPDATE wf_worker SET orders = ? WHERE app = ? AND id = ?"
_INSTRUCTIONS = get_args(Instruction)


class SqliteFleet:
    """A `FleetStore`."""

    def __init__(self, app: str, lanes: Lanes) -> None:
        self._app, self._lanes = app, lanes

    async def register(self, worker: WorkerRecord) -> None:
        def operation(step: Step) -> None:
            who = worker.identity
            queues = "\n".join(worker.queues)
            handlers = msgspec.json.encode(worker.handlers) if worker.handlers else None
            facts = (worker.id, who.host, who.boot_id, who.pid, who.started, queues, handlers, worker.release)
            step.change(_REGISTER, self._app, *facts, worker.active, step.now, step.now)

        await self._lanes.write(operation)

    async def instruct(self, worker_id: str, instruction: Instruction | None) -> bool:
        instruct = "UPDATE wf_worker SET instruction = ? WHERE app = ? AND id = ?"
        return await self._lanes.write(lambda step: bool(step.change(instruct, instruction, self._app, worker_id)))

    async def order(self, worker_id: str, order: PoolOrder) -> bool:
        def operation(step: Step) -> bool:
            row = step.row(_ORDERS, self._app, worker_id)
            if row is not None:
                _set_orders(step, self._app, worker_id, after(orders_from(row[0]), order))
            return row is not None

        return await self._lanes.write(operation)

    async def workers(self) -> list[WorkerRecord]:
        workers = f"{_WORKER} ORDER BY id"
        return await self._lanes.read(lambda step: [_worker(row) for row in step.rows(workers, self._app)])

    async def forget(self, worker_id: str) -> bool:
        forget = "DELETE FROM wf_worker WHERE app = ? AND id = ?"
        return await self._lanes.write(lambda step: bool(step.change(forget, self._app, worker_id)))


def beat(step: Step, app: str, worker_id: str, said: PulseRequest) -> WorkerRecord | None:
    """A worker's sign of life. Returns its record, None when it is gone."""
    pools = msgspec.json.encode(said.pools) if said.pools else None
    step.change(_BEAT, step.now, said.active, pools, app, worker_id)
    row = step.row(f"{_WORKER} AND id = ?", app, worker_id)
    if row is None:
        return None
    record = _worker(row)
    left = without(record.orders, said.obeyed)
    if left != record.orders:
        _set_orders(step, app, worker_id, left)
        record.orders = left
    return record


def _set_orders(step: Step, app: str, worker_id: str, orders: tuple[PoolOrder, ...]) -> None:
    step.change(_ORDER, msgspec.json.encode(orders) if orders else None, app, worker_id)


def _worker(row: Row) -> WorkerRecord:
    worker_id, host, boot_id, pid, started, queues, release, started_ms, seen_ms, instruction, active, *said = row
    handlers, pools, orders = said
    return WorkerRecord(
        id=worker_id,
        identity=ProcessIdentity(host=host, boot_id=boot_id, pid=pid, started=started),
        handlers=handlers_from(handlers),
        queues=tuple(queues.split("\n")) if queues else (),
        release=release,
        # One of a newer version means nothing to this one.
        instruction=instruction if instruction in _INSTRUCTIONS else None,
        active=active,
        pools=pools_from(pools),
        orders=orders_from(orders),
        started_ms=started_ms,
        seen_ms=seen_ms,
    )
