"""A clock that only moves when somebody waits, and a store that lives in the test's process and keeps a journal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from workfleet.errors import StoreUnavailable
from workfleet.events import Event
from workfleet.model.fleet import LockGrant, WorkerRecord
from workfleet.model.jobs import Claim, JobRecord, JobState
from workfleet.model.outcome import Settlement
from workfleet.ports.jobs import Settled, TakeOver
from workfleet.supervision.service import Service


class SteppingClock:
    """Sleeping takes no time but moves the clock, up to `end`: who would sleep beyond it sleeps for ever."""

    def __init__(self) -> None:
        self.seconds = 1_000.0
        self.wall_ms = 1_700_000_000_000
        self.slept: list[float] = []
        self.end = 1e9
        self.at_end = asyncio.Event()
        self.at_step: Callable[[], None] = lambda: None

    def now_ms(self) -> int:
        return self.wall_ms + round((self.seconds - 1_000.0) * 1000)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        if self.seconds + seconds > self.end:
            self.at_end.set()
            await asyncio.Event().wait()
        self.slept.append(seconds)
        self.seconds += seconds
        self.at_step()
        await asyncio.sleep(0)

    async def run_with(
        self, service: Service, seconds: float, at: Mapping[float, Callable[[], object]] | None = None
    ) -> None:
        """Serve for that long; `at` calls things once the clock has passed that many seconds."""
        start, todo = self.seconds, dict(at or {})

        def step() -> None:
            for when in [when for when in todo if self.seconds - start >= when]:
                todo.pop(when)()

        self.at_step = step
        await self.run(service, seconds)

    async def run(self, service: Service, seconds: float) -> None:
        """Serve for exactly that long on this clock, then cancel."""
        self.end = self.seconds + seconds
        self.at_end.clear()
        serving = asyncio.create_task(service.serve())
        ended = asyncio.create_task(self.at_end.wait())
        await asyncio.wait([serving, ended], return_when=asyncio.FIRST_COMPLETED)
        assert not serving.done(), serving.result()
        serving.cancel()
        await asyncio.wait([serving])
        self.seconds = self.end


class FakeJobs:
    """The part of a job store that supervision uses. `down` makes the next calls fail, that many times."""

    def __init__(self) -> None:
        self.records: dict[str, JobRecord] = {}
        self.expired: set[str] = set()
        self.renewals: list[list[str]] = []
        self.stale: set[str] = set()
        self.down = 0
        self.settlements: list[Settlement] = []

    def add(self, job_id: str, *, worker: str, crashes: int = 0) -> Claim:
        record = JobRecord(
            id=job_id, queue="q", name="n", state=JobState.ACTIVE, worker=worker, token=f"t-{job_id}", crashes=crashes
        )
        self.records[job_id] = record
        return record.claim

    async def renew(self, claims: Sequence[Claim], lease_ms: int) -> list[bool]:
        self._may_fail()
        self.renewals.append([claim.job_id for claim in claims])
        return [claim.job_id not in self.stale for claim in claims]

    async def take_over(self, request: TakeOver) -> list[JobRecord]:
        self._may_fail()
        active = [record for record in self.records.values() if record.state is JobState.ACTIVE]
        if request.workers is None:
            found = [record for record in active if record.id in self.expired]
        else:
            found = [record for record in active if record.worker in request.workers]
        for record in found[: request.limit]:
            record.token = request.token
            self.expired.discard(record.id)
        return [msgspec.structs.replace(record) for record in found[: request.limit]]

    async def expires_in_ms(self) -> int | None:
        self._may_fail()
        active = {record.id for record in self.records.values() if record.state is JobState.ACTIVE}
        return None if not active else 0 if active & self.expired else 30_000

    async def settle(self, settlements: Sequence[Settlement], then: object = None) -> Settled:
        self._may_fail()
        return Settled([self._settle(settlement) for settlement in settlements], [])

    def _settle(self, settlement: Settlement) -> bool:
        record = self.records[settlement.claim.job_id]
        if record.token != settlement.claim.token:
            return False
        self.settlements.append(settlement)
        record.state, record.token, record.worker = settlement.outcome.state, None, None
        record.failure, record.crashes = settlement.outcome.failure, settlement.outcome.crashes
        return True

    def _may_fail(self) -> None:
        if self.down > 0:
            self.down -= 1
            raise StoreUnavailable("fake://", "down")


class FakeLocks:
    def __init__(self) -> None:
        self.owners: dict[str, str] = {}
        self.renewals: list[tuple[str, int]] = []

    async def renew(self, name: str, owner: str, ttl_ms: int) -> LockGrant | None:
        self.renewals.append((name, ttl_ms))
        return LockGrant(name, owner, 1, 0) if self.owners.get(name) == owner else None

    async def release(self, name: str, owner: str | None) -> bool:
        if owner is not None and self.owners.get(name) != owner:
            return False
        return self.owners.pop(name, None) is not None

    async def held(self) -> list[LockGrant]:
        return [LockGrant(name, owner, 1, 0) for name, owner in self.owners.items()]


class FakeFleet:
    def __init__(self) -> None:
        self.records: dict[str, WorkerRecord] = {}

    async def workers(self) -> list[WorkerRecord]:
        return list(self.records.values())

    async def forget(self, worker_id: str) -> bool:
        return self.records.pop(worker_id, None) is not None


class FakeStore:
    url, app = "fake://", "test"

    def __init__(self) -> None:
        self.jobs, self.locks, self.fleet = FakeJobs(), FakeLocks(), FakeFleet()
        self.closed = 0

    async def close(self) -> None:
        self.closed += 1


def fake_store() -> Any:
    """Typed as anything, because it has only what supervision asks of a store."""
    return FakeStore()


class Published(list[Event]):
    """Events in their order."""

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self if isinstance(event, kind)]


async def until(true: Callable[[], object], *, seconds: float = 10.0) -> None:
    """Wait for a fact, in real time, and fail when it does not come."""
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.01)
