"""Who works here, in SQLite."""

from __future__ import annotations

from workfleet.model.fleet import ProcessIdentity, WorkerRecord

from .lane import Row, Step
from .lanes import Lanes


class SqliteFleet:
    """A `FleetStore`."""

    def __init__(self, app: str, lanes: Lanes) -> None:
        self._app, self._lanes = app, lanes

    async def register(self, worker: WorkerRecord) -> None:
        def operation(step: Step) -> None:
            who = worker.identity
            queues = "\n".join(worker.queues)
            facts = (worker.id, who.host, who.boot_id, who.pid, who.started, queues, worker.release, step.now, step.now)
            step.change("INSERT OR REPLACE INTO wf_worker VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", self._app, *facts)

        await self._lanes.write(operation)

    async def beat(self, worker_id: str) -> bool:
        beat = "UPDATE wf_worker SET seen_ms = ? WHERE app = ? AND id = ?"
        return await self._lanes.write(lambda step: bool(step.change(beat, step.now, self._app, worker_id)))

    async def workers(self) -> list[WorkerRecord]:
        workers = """
            SELECT id, host, boot_id, pid, started, queues, release, started_ms, seen_ms
            FROM wf_worker WHERE app = ? ORDER BY id
        """
        return await self._lanes.read(lambda step: [_worker(row) for row in step.rows(workers, self._app)])

    async def forget(self, worker_id: str) -> bool:
        forget = "DELETE FROM wf_worker WHERE app = ? AND id = ?"
        return await self._lanes.write(lambda step: bool(step.change(forget, self._app, worker_id)))


def _worker(row: Row) -> WorkerRecord:
    worker_id, host, boot_id, pid, started, queues, release, started_ms, seen_ms = row
    return WorkerRecord(
        id=worker_id,
        identity=ProcessIdentity(host=host, boot_id=boot_id, pid=pid, started=started),
        queues=tuple(queues.split("\n")) if queues else (),
        release=release,
        started_ms=started_ms,
        seen_ms=seen_ms,
    )
