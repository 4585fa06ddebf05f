"""A worker that works off one job of each kind over a store with faults, and what must be true of the store then."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from tests.faults.fast import FastClock
from workfleet import App, Client, Job, JobType, NewJob, idempotent, locked
from workfleet.app.builtins import Basis
from workfleet.app.composition import compose
from workfleet.app.runtime import Runtime
from workfleet.app.runtime_options import RuntimeOptions
from workfleet.bus import Bus
from workfleet.errors import StoreUnavailable
from workfleet.events import Event, JobSettled
from workfleet.ids import derived_id
from workfleet.model.fleet import ProcessIdentity, WorkerRecord
from workfleet.model.jobs import FINISHED, JobRecord, JobState
from workfleet.ports.jobs import ClaimRequest, JobQuery, Want
from workfleet.ports.stores import Store
from workfleet.stores.open import open_store
from workfleet.supervision.identity import boot_id
from workfleet.testing import FaultyStore

T = TypeVar("T")
SAID = {"store": "memory://", "poll": "1s", "heartbeat_enabled": False, "concurrency": 4}
NO_PROCESS = 2**22 + 1
PATIENCE_S = 300.0
CHILD = JobType("child", int, int, queue="children")

RUNS = {
    "plain": 1,
    "retried": 2,
    "fails": 2,
    "talks": 1,
    "parent": 1,
    "long": 1,
    "left": 1,
    "expired": 1,
    "later": 1,
    "guarded": 1,
}
CANCELLED = {"doomed": 1, "dropped": 0}
"""Jobs that are cancelled, while they run and before: how often they ran."""
"""How often each of the jobs that are acknowledged runs when nothing is wrong, by id."""
CHILDREN = {derived_id("parent", number): 1 for number in range(3)}
LINES = {"talks": ["one", "two", "three"], "retried": ["attempt 1", "attempt 2"]}
CRASHES = {"left": 1, "expired": 1}
GUARDED = "guarded"
"""Its guards need the store as well: a fault there costs it an attempt, and never a second run of what they guard."""
FAILS = ("fails", *CANCELLED)


class Life:
    """One case. `live` returns what is wrong, a sentence each.

    The lease is so long that no slow machine outlasts it. With `renewing` it is so short that the longest job needs a
    renewal. `explained` is how many leases the fault may outlast: so often a job may have been taken over and run
    again."""

    def __init__(self, store: Store, clock: FastClock, *, renewing: bool = False, explained: int = 0) -> None:
        self.lease_s, self.long_s = (12.0, 4.5) if renewing else (90.0, 0.1)
        self.explained = explained
        self.clock, self.inner = clock, store
        self.store = FaultyStore(store, clock=clock)
        self.journal: list[tuple[str, str]] = []
        """("run", id), ("end", id) and ("finished", id), in the order in which it happened."""
        self.events: list[Event] = []
        self.wrong: list[str] = []
        self.slow: str | None = None
        """It took so long that something must have waited for a lease."""
        self.doomed = asyncio.Event()
        """The job that is to be cancelled runs."""
        self._watch(store)

    def _watch(self, store: Store) -> None:
        """Note what the store has settled for good, whether its caller hears of it or not. It outlives its worker."""
        settle = store.jobs.settle

        repeats = set()

        async def noted(settlements: Any, then: Any = None) -> Any:
            settled = await settle(settlements, then)
            for settlement, applied in zip(settlements, settled.applied, strict=True):
                if applied and settlement.outcome.state in FINISHED and settlement.claim not in repeats:
                    repeats.add(settlement.claim)
                    self.journal.append(("finished", settlement.claim.job_id))
            return settled

        store.jobs.settle = noted  # type: ignore[method-assign]
        self._close, store.close = store.close, _nothing  # type: ignore[method-assign]

    def app(self) -> App:
        app, journal = App("walk"), self.journal

        def job_of(name: str, attempts: int = 1) -> Callable[[Any], Any]:
            return app.handler(name, queue=name, attempts=attempts, backoff="20ms")

        def begun(job: Job[Any]) -> None:
            journal.append(("run", job.id))

        @job_of("plain")
        async def plain(job: Job[None]) -> str:
            begun(job)
            journal.append(("end", job.id))
            return "done"

        @job_of("retried", attempts=2)
        async def retried(job: Job[None]) -> str:
            begun(job)
            job.log(f"attempt {job.attempt}")
            if job.attempt == 1:
                raise OSError("the first attempt fails")
            return "done"

        @job_of("fails", attempts=2)
        async def fails(job: Job[None]) -> None:
            begun(job)
            raise OSError("every attempt fails")

        @job_of("talks")
        async def talks(job: Job[None]) -> None:
            begun(job)
            for number, line in enumerate(LINES["talks"]):
                job.log(line)
                try:
                    await job.progress(number)
                except StoreUnavailable:
                    journal.append(("raised", job.id))
                await asyncio.sleep(0.05)

        @job_of("parent")
        async def parent(job: Job[None]) -> list[NewJob[int]]:
            begun(job)
            return [CHILD(number) for number in range(3)]

        @app.handler(CHILD)
        async def child(job: Job[int]) -> int:
            begun(job)
            return job.data

        @job_of("long")
        async def long(job: Job[None]) -> None:
            begun(job)
            await asyncio.sleep(self.long_s)
            journal.append(("end", job.id))

        @job_of("doomed")
        async def doomed(job: Job[None]) -> None:
            begun(job)
            self.doomed.set()
            await asyncio.sleep(PATIENCE_S)

        @job_of(GUARDED, attempts=1_000)
        @idempotent("{job.id}")
        @locked("guard", on_busy="wait")
        async def guarded(job: Job[None]) -> str:
            begun(job)
            journal.append(("end", job.id))
            return "done"

        @app.schedule("ticks", every="1s")
        async def ticks(job: Job[None]) -> None:
            begun(job)

        self.jobs = [
            each.job(None, id=each.__name__) for each in (plain, retried, fails, talks, parent, long, doomed, guarded)
        ]
        self.jobs.append(plain.job(None, id="later", delay="100ms"))
        self.jobs.append(plain.job(None, id="dropped", delay="1h"))
        return app

    async def live(self) -> list[str]:
        """A worker's life, and another's where the first could not start. Returns what is wrong."""
        try:
            app = self.app()
            await self._leave_jobs()
            runtime = await self._started(app)
            client = await runtime.container.get(Client)
            await self._enqueue(client)
            await self._insist(client.queues.list)
            await asyncio.wait_for(self.doomed.wait(), PATIENCE_S)
            await self._insist(lambda: client.jobs.cancel(*CANCELLED))
            began = self.clock.monotonic()
            try:
                await asyncio.wait_for(self._all_finished(), PATIENCE_S)
            except TimeoutError:
                self.wrong.append("it did not come to an end")
            took_s = self.clock.monotonic() - began
            if took_s > self.lease_s * 0.9 and not self.explained:
                self.slow = f"something waited for a lease: it took {took_s:.0f} s"
            stopped = await runtime.stop(5_000)
            self.wrong += [f"{name} refused to stop" for name in stopped.refused]
            await self._judge()
        finally:
            await self._close()
        return self.wrong

    async def _leave_jobs(self) -> None:
        """What workers before us left: one whose process is gone, and one of which nothing is known but its job."""
        gone = ProcessIdentity(socket.gethostname(), boot_id(), NO_PROCESS, "1")
        await self.inner.fleet.register(WorkerRecord(id="gone", identity=gone))
        for worker, job_id, lease_ms in (("gone", "left", 3_600_000), ("nobody", "expired", 1)):
            await self.inner.jobs.enqueue([JobRecord(id=job_id, queue="plain", name="plain")])
            await self.inner.jobs.claim(ClaimRequest(worker, worker, lease_ms, (Want("plain", 1),)))

    async def _started(self, app: App) -> Runtime:
        for _ in range(50):
            bus = Bus()
            bus.subscribe(self.events.append)
            basis = Basis(compose(app, cli=SAID | {"lease": f"{self.lease_s:g}s"}), self.clock, bus, "w1", self._opened)
            runtime = Runtime(basis, RuntimeOptions(worker="w1"))
            try:
                await runtime.start()
            except StoreUnavailable:
                continue  # who started it starts it again
            return runtime
        raise AssertionError("it does not start")

    async def _opened(self, _url: str, **_how: Any) -> Store:
        return self.store

    async def _enqueue(self, client: Client) -> None:
        for job in self.jobs:
            await self._insist(lambda job=job: client.enqueue(job))  # type: ignore[misc]

    async def _insist(self, call: Callable[[], Awaitable[T]]) -> T:
        """What a caller does who is told that the store cannot be reached."""
        for _ in range(20):
            try:
                return await call()
            except StoreUnavailable:
                await asyncio.sleep(0.01)
        raise AssertionError("it is never answered")

    async def _all_finished(self) -> None:
        wanted = [*RUNS, *CHILDREN, *CANCELLED]
        while True:
            records = await self.inner.jobs.get(wanted)
            if all(record and record.state in FINISHED for record in records) and self._ticked():
                return
            await asyncio.sleep(0.1)

    def _ticked(self) -> bool:
        return any(isinstance(event, JobSettled) and event.schedule == "ticks" for event in self.events)

    async def _judge(self) -> None:
        everything = await self.inner.jobs.find(JobQuery(limit=100_000, housekeeping=False))
        by_id = {record.id: record for record in everything}
        await self._judge_states(by_id)
        for job_id in (*RUNS, *CHILDREN, *CANCELLED):
            if job_id not in by_id:
                self.wrong.append(f"{job_id} is lost")
            else:
                self._judge_job(by_id[job_id])
        slots = Counter(record.slot_ms for record in everything if record.schedule == "ticks")
        self.wrong += [f"slot {slot} has {count} jobs" for slot, count in slots.items() if count > 1]
        ticks = {record.id: 1 for record in everything if record.schedule == "ticks" and record.state in FINISHED}
        self._judge_effects(RUNS | CHILDREN | CANCELLED | ticks)
        for job_id, lines in LINES.items():
            kept = await self.inner.jobs.logs(job_id)
            # What a run said last is tried twice at its end, and does not hold up its outcome.
            lost = sum(failed.startswith("jobs.report ") for failed in self.store.failed) > 1
            if (
                kept != lines
                and not (self.explained and set(kept) == set(lines))
                and not (lost and set(kept) < set(lines))
            ):
                self.wrong.append(f"{job_id} has the lines {kept}")
        # A release is tried once, and the lock expires by itself.
        if not any(failed.startswith("locks.release ") for failed in self.store.failed):
            self.wrong += [f"lock {lock.name} is still held" for lock in await self.inner.locks.held()]

    async def _judge_states(self, by_id: dict[str, JobRecord]) -> None:
        """Each job in exactly one state, and nothing half-way."""
        listed: Counter[str] = Counter()
        for state in JobState:
            found = await self.inner.jobs.find(JobQuery(states=(state,), limit=100_000, housekeeping=False))
            listed.update(record.id for record in found)
        self.wrong += [f"{job_id} is in {count} states" for job_id, count in listed.items() if count != 1]
        if set(listed) != set(by_id):
            self.wrong.append(f"in no state: {sorted(set(by_id) - set(listed))}")
        counts = await self.inner.jobs.counts(housekeeping=False)
        counted = sum(
            each.waiting + each.prioritized + each.delayed + each.active + each.completed + each.failed
            for each in counts.values()
        )
        if counted != len(by_id):
            self.wrong.append(f"{counted} jobs are counted, {len(by_id)} are there")
        self.wrong += [f"{record.id} is still active" for record in by_id.values() if record.state is JobState.ACTIVE]

    def _judge_job(self, record: JobRecord) -> None:
        wanted = JobState.FAILED if record.id in FAILS else JobState.COMPLETED
        if record.state is not wanted:
            self.wrong.append(f"{record.id} is {record.state.value}: {record.failure}")
        if record.id in CANCELLED and record.outcome != "cancelled":
            self.wrong.append(f"{record.id} ended as {record.outcome}")
        if record.token is not None or record.lease_until_ms is not None:
            self.wrong.append(f"{record.id} is finished and still held")
        crashes = CRASHES.get(record.id, 0)
        if not crashes <= record.crashes <= crashes + self.explained:
            self.wrong.append(f"{record.id} has {record.crashes} crashes")
        attempts = (RUNS | CHILDREN | CANCELLED)[record.id]
        if record.id == GUARDED:
            faults = sum(failed.startswith(("keys.", "locks.")) for failed in self.store.failed)
            attempts += min(record.attempts_made - 1, faults)
        if record.attempts_made != attempts:
            self.wrong.append(f"{record.id} made {record.attempts_made} attempts")
        if len(record.history) != attempts + record.crashes:
            self.wrong.append(f"{record.id} has a history of {[each.outcome for each in record.history]}")

    def _judge_effects(self, wanted: dict[str, int]) -> None:
        runs: Counter[str] = Counter()
        finished: set[str] = set()
        for what, job_id in self.journal:
            if what == "finished":
                if job_id in finished:
                    self.wrong.append(f"{job_id} was finished twice")
                finished.add(job_id)
            elif job_id in finished:
                self.wrong.append(f"{job_id}: an effect ({what}) after its settle")
            runs[job_id] += what == "run"
        for job_id, times in wanted.items():
            if not times <= runs[job_id] <= times + self.explained:
                self.wrong.append(f"{job_id} ran {runs[job_id]} times, not {times}")
        told = Counter(event.id for event in self.events if isinstance(event, JobSettled) and event.state != "delayed")
        self.wrong += [f"the end of {job_id} is told {count} times" for job_id, count in told.items() if count > 1]


async def _nothing() -> None:
    return None


async def opened(kind: str, folder: Any, case: int, clock: FastClock) -> Store:
    """A fresh store for one case."""
    url = "memory://" if kind == "memory" else f"sqlite:///{folder}/{case}.db"
    return await open_store(url, app="walk", clock=clock, create=True)
