"""Who works here, in SQLite."""

from __future__ import annotations

from typing import get_args

from workfleet.model.fleet import Instruction, ProcessIdentity, WorkerRecord

from .lane import Row, Step
from .lanes import Lanes

_REGISTER = """
INSERT OR REPLACE INTO wf_worker
  (app, id, host, boot_id, pid, started, queues, release, active, started_ms, seen_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_BEAT = "UPDATE wf_worker SET seen_ms = ?, active = ? WHERE app = ? AND id = ?"
_WORKER = """
SELECT id, host, boot_id, pid, started, queues, release, started_ms, seen_ms, instruction, active
FROM wf_worker WHERE app = ?
"""
_INSTRUCTIONS = get_args(Instruction)


class SqliteFleet:
    """A `FleetStore`."""

    def __init__(self, app: str, lanes: Lanes) -> None:
        self._app, self._lanes = app, lanes

    async def register(self, worker: WorkerRecord) -> None:
        def operation(step: Step) -> None:
            who = worker.identity
            queues = "\n".join(worker.queues)
            facts = (worker.id, who.host, who.boot_id, who.pid, who.started, queues, worker.release)
            step.change(_REGISTER, self._app, *facts, worker.active, step.now, step.now)

        await self._lanes.write(operation)

    async def instruct(self, worker_id: str, instruction: Instruction | None) -> bool:
        instruct = "UPDATE wf_worker SET instruction = ? WHERE app = ? AND id = ?"
        return await self._lanes.write(lambda step: bool(step.change(instruct, instruction, self._app, worker_id)))

    async def workers(self) -> list[WorkerRecord]:
        workers = f"{_WORKER} ORDER BY id"
        return await self._lanes.read(lambda step: [_worker(row) for row in step.rows(workers, self._app)])

    async def forget(self, worker_id: str) -> bool:
        forget = "DELETE FROM wf_worker WHERE app = ? AND id = ?"
        return await self._lanes.write(lambda step: bool(step.change(forget, self._app, worker_id)))


def beat(step: Step, app: str, worker_id: str, active: int) -> WorkerRecord | None:
    """A worker's sign of life. Returns its record, None when it is gone."""
    step.change(_BEAT, step.now, active, app, worker_id)
    row = step.row(f"{_WORKER} AND id = ?", app, worker_id)
    return None if row is None else _worker(row)


def _worker(row: Row) -> WorkerRecord:
    worker_id, host, boot_id, pid, started, queues, release, started_ms, seen_ms, instruction, active = row
    return WorkerRecord(
        id=worker_id,
        identity=ProcessIdentity(host=host, boot_id=boot_id, pid=pid, started=started),
        queues=tuple(queues.split("\n")) if queues else (),
        release=release,
        # One of a newer version means nothing to this one.
        instruction=instruction if instruction in _INSTRUCTIONS else None,
        active=active,
        started_ms=started_ms,
        seen_ms=seen_ms,
    )
