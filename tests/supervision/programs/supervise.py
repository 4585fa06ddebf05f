"""A real supervisor over scripted workers and a store that is a folder.

    supervise.py FOLDER OPTIONS_JSON

`claims.jsonl` in the folder says which jobs are active at which worker; `journal.jsonl` gets every call that changes
the store, `events.jsonl` every event, `summary.json` the end. A file `down` in the folder makes the store fail; with
`slow-close` its close takes four seconds, with `never-closes` for ever.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from workfleet.app.supervisor.options import Summary, SupervisorOptions
from workfleet.app.supervisor.supervisor import Supervisor
from workfleet.clock import SystemClock
from workfleet.errors import StoreUnavailable
from workfleet.events import Event
from workfleet.model.fleet import WorkerRecord
from workfleet.model.jobs import Claim, JobRecord, JobState
from workfleet.model.outcome import Settlement
from workfleet.ports.clock import Clock
from workfleet.ports.jobs import Settled, TakeOver


class FolderStore:
    url, app = "folder://", "test"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jobs = self.locks = self.fleet = self
        self.settled: set[str] = set()

    def note(self, what: str, value: object) -> None:
        with (self.folder / "journal.jsonl").open("a") as file:
            file.write(json.dumps([what, value]) + "\n")

    def may_fail(self) -> None:
        if (self.folder / "down").exists():
            raise StoreUnavailable("folder://", "down")

    async def renew(self, *arguments: Any) -> Any:
        self.may_fail()
        if isinstance(arguments[0], str):
            self.note("renew_lock", arguments[0])
            return True
        claims: Sequence[Claim] = arguments[0]
        self.note("renew", [claim.job_id for claim in claims])
        return [claim.job_id != "stolen" for claim in claims]

    async def take_over(self, request: TakeOver) -> list[JobRecord]:
        self.may_fail()
        self.note("take_over", request.worker)
        path = self.folder / "claims.jsonl"
        claims = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        assert request.workers is not None
        return [
            JobRecord(id=job, queue="q", name="n", state=JobState.ACTIVE, worker=worker, token=request.token)
            for job, worker in claims
            if worker in request.workers and job not in self.settled
        ]

    async def settle(self, settlements: Sequence[Settlement]) -> Settled:
        self.may_fail()
        if (self.folder / "no-settle").exists():
            raise StoreUnavailable("folder://", "it does not settle")
        for settlement in settlements:
            self.settled.add(settlement.claim.job_id)
            failure = settlement.outcome.failure
            told = [settlement.claim.job_id, settlement.outcome.code, failure.message if failure else None]
            self.note("settle", told)
        return Settled([True] * len(settlements), [])

    async def release(self, name: str, owner: str | None) -> bool:
        self.note("release", [name, owner])
        return True

    async def register(self, worker: WorkerRecord) -> None:
        self.may_fail()
        self.note("register", [worker.id, worker.identity.pid])

    async def forget(self, worker_id: str) -> bool:
        self.note("forget", worker_id)
        return True

    async def close(self) -> None:
        self.note("closing", None)
        if (self.folder / "never-closes").exists():
            await asyncio.Event().wait()
        if (self.folder / "slow-close").exists():
            await asyncio.sleep(4.0)
        self.note("close", None)


def main() -> int:
    folder, options = Path(sys.argv[1]), msgspec.json.decode(sys.argv[2], type=SupervisorOptions)

    async def open_store(url: str, *, app: str, clock: Clock, create: bool) -> Any:
        store = FolderStore(Path(url.removeprefix("folder://")))
        store.may_fail()
        store.note("open", [app, create])
        return store

    def publish(event: Event) -> None:
        with (folder / "events.jsonl").open("a") as file:
            file.write(json.dumps([event.wire_name, event.fields()]) + "\n")

    def on_summary(summary: Summary) -> None:
        (folder / "summary.json").write_bytes(msgspec.json.encode(summary))

    supervisor = Supervisor(options, open_store=open_store, clock=SystemClock(), publish=publish, on_summary=on_summary)
    return asyncio.run(supervisor.run())


if __name__ == "__main__":
    sys.exit(main())
