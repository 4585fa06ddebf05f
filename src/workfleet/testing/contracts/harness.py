"""What the contract tests stand on: a clock that they move, a store that is checked for leaks, short makers."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol

import pytest
import pytest_asyncio
from msgspec import structs

from workfleet.model.fleet import WorkerRecord
from workfleet.model.jobs import FINISHED, READY, Failure, JobCounts, JobRecord, JobState
from workfleet.model.outcome import Ended, Outcome, RunPolicy, Settlement, decide
from workfleet.model.policy import Backoff
from workfleet.ports.clock import Clock
from workfleet.ports.jobs import ClaimRequest, JobQuery, Want
from workfleet.ports.pulse import Pulse, PulseRequest
from workfleet.ports.stores import Store

_tokens = itertools.count(1)


class ManualClock:
    """A clock that stands still until `advance`. Whoever sleeps on it wakes when its time has come."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._sleepers: dict[asyncio.Future[None], float] = {}

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return self._now_ms / 1000

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers[woken] = self._now_ms + seconds * 1000
        try:
            await woken
        finally:
            del self._sleepers[woken]

    async def advance(self, ms: int) -> None:
        """Let time pass, backwards too."""
        self._now_ms += ms
        for woken, until in self._sleepers.items():
            if until <= self._now_ms and not woken.done():
                woken.set_result(None)


class Opener(Protocol):
    """Opens the store under test. Every call opens the same data, as another process would."""

    def __call__(self, app: str, clock: Clock) -> Awaitable[Store]: ...


Leaks = Callable[[Store], Awaitable[Iterable[str]]]
"""Looks, behind the store's back, at everything that the store keeps, and says what has neither an owner nor an expiry,
one line each. It is asked after every test, a day after its last step and after a `prune([])`. By then there must be
none of these:
- parts of a job (payload, outcome, progress, log lines, notes of its calls) without the job;
- claims and leases without an active job; notes of old calls;
- unique keys that no unfinished job holds, windows that are over, newcomers' ids whose job is gone;
- starts noted for a rate, later than its window, or where no rate is set;
- expired keys and locks;
- notes about a schedule that is gone.
Queues, with what was said of them, stay; workers stay until they are forgotten, and rows of the ledger until they are
pruned by their own rule."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def leaks() -> Leaks:
    """Nothing to look at. A store's own test file replaces it: see `Leaks`."""

    async def nothing_to_see(_: Store) -> Iterable[str]:
        return ()

    return nothing_to_see


@pytest_asyncio.fixture
async def store(opener: Opener, clock: ManualClock, leaks: Leaks) -> AsyncIterator[Store]:
    opened = await opener("shop", clock)
    yield opened
    assert await inconsistencies(opened) == []
    # Long enough for every lease, key, lock and note of an old call.
    await clock.advance(86_400_000)
    await opened.jobs.prune([])
    assert list(await leaks(opened)) == []
    await opened.close()


async def inconsistencies(store: Store) -> list[str]:
    """What is wrong with the jobs as they are stored; nothing, after whatever happened."""
    jobs = await store.jobs.find(JobQuery(limit=10_000_000))
    wrong = [f"{job.id}: {fault}" for job in jobs for fault in _faults(job)]
    keys = Counter(job.unique_key for job in jobs if _holds_its_key(job))
    wrong += [f"{key} is the unique key of {count} jobs" for key, count in keys.items() if count > 1]
    alone = Counter(job.unique_key for job in jobs if job.unique.exclusive and _goes_on(job))
    wrong += [f"{key} is exclusive and {count} jobs of it go on" for key, count in alone.items() if count > 1]
    wrong += [f"{job_id} is there {n} times" for job_id, n in Counter(job.id for job in jobs).items() if n > 1]
    counts = {queue: count for queue, count in (await store.jobs.counts()).items() if count != JobCounts()}
    if counts != (recount := _recount(jobs)):
        wrong.append(f"counts are {counts}, the jobs are {recount}")
    now = await store.now_ms()
    wrong += [f"the lock {lock.name} has no end" for lock in await store.locks.held() if lock.expires_ms <= now]
    return wrong


def _holds_its_key(job: JobRecord) -> bool:
    """Whether a job holds its key for certain: one that has a window may hold it no more."""
    if job.unique_key is None or job.unique.window_ms or job.state in FINISHED:
        return False
    return job.unique.until == "finished" or job.started_ms is None


def _goes_on(job: JobRecord) -> bool:
    """Whether a job was claimed and has not finished."""
    return job.started_ms is not None and job.state not in FINISHED


def _faults(job: JobRecord) -> list[str]:
    faults = []
    if job.parked and job.state is not JobState.DELAYED:
        faults.append(f"{job.state.value} and parked")
    if (job.state is JobState.ACTIVE) != all((job.worker, job.token, job.lease_until_ms)):
        faults.append(f"{job.state.value} with worker {job.worker}, token {job.token}, lease {job.lease_until_ms}")
    if job.state is not JobState.ACTIVE and (job.worker or job.token or job.lease_until_ms):
        faults.append("a claim is left on it")
    if (job.state in FINISHED) != (job.finished_ms is not None):
        faults.append(f"{job.state.value} with finished_ms {job.finished_ms}")
    if job.state in READY and (job.state is JobState.PRIORITIZED) != (job.priority > 0):
        faults.append(f"{job.state.value} with priority {job.priority}")
    return faults


def _recount(jobs: Sequence[JobRecord]) -> dict[str, JobCounts]:
    by_queue: dict[str, list[JobRecord]] = {}
    for job in jobs:
        by_queue.setdefault(job.queue, []).append(job)
    return {queue: _counted(of_queue) for queue, of_queue in by_queue.items()}


def _counted(jobs: Sequence[JobRecord]) -> JobCounts:
    states = Counter(job.state.value.replace("-", "_") for job in jobs)
    again = sum(job.state is JobState.DELAYED and job.started_ms is not None for job in jobs)
    oldest = min((job.due_ms for job in jobs if job.state in READY), default=None)
    return JobCounts(**states, retrying=again, oldest_ready_ms=oldest)


def job(job_id: str, **said: Any) -> JobRecord:
    """A job to enqueue, on the queue "q" unless said otherwise."""
    return JobRecord(id=job_id, **{"queue": "q", "name": "work", **said})


def jobs(ids: str, **said: Any) -> list[JobRecord]:
    """A job for each word."""
    return [job(job_id, **said) for job_id in ids.split()]


def ids(records: Iterable[JobRecord]) -> str:
    """The ids of records, in their order."""
    return " ".join(record.id for record in records)


def request(
    limit: int = 1, *, worker: str = "w1", token: str | None = None, lease_ms: int = 30_000, **wants: int
) -> ClaimRequest:
    """A claim request under a new token for the queue "q", or for the queues named with their limits."""
    wanted = tuple(Want(queue, n) for queue, n in (wants or {"q": limit}).items())
    return ClaimRequest(worker, token or f"token-{next(_tokens)}", lease_ms, wanted)


async def claim(store: Store, limit: int = 1, *, worker: str = "w1", lease_ms: int = 30_000) -> list[JobRecord]:
    """Claim jobs of the queue "q" under a new token."""
    return await store.jobs.claim(request(limit, worker=worker, lease_ms=lease_ms))


async def pulse(store: Store, **said: Any) -> Pulse:
    """A pulse that is about nothing but what is said. Its probe is of the queue "probes", under an id of its own."""
    number = next(_tokens)
    request = PulseRequest(
        probe=job(f"probe-{number}", queue="probes", housekeeping=True),
        claim=ClaimRequest("prober", f"token-{number}", 1_000, (Want("probes", 10),)),
        done=Outcome(state=JobState.COMPLETED, code="completed", result=b"null", attempts_made=1),
    )
    return await store.pulse(structs.replace(request, **said))


async def beat(store: Store, worker: str, *, active: int = 0) -> WorkerRecord | None:
    """A worker's sign of life."""
    return (await pulse(store, worker=worker, active=active)).worker


async def stored(store: Store, job_id: str) -> JobRecord:
    """A job that must be there."""
    (record,) = await store.jobs.get([job_id])
    assert record is not None
    return record


async def state(store: Store, job_id: str) -> str:
    """The state of a job that must be there; "parked" says more than `delayed`."""
    record = await stored(store, job_id)
    return "parked" if record.parked else record.state.value


async def states(store: Store, names: str) -> str:
    """The states of jobs, in the order asked."""
    return " ".join([await state(store, name) for name in names.split()])


async def finish(store: Store, records: Iterable[JobRecord], how: Ended | None = None) -> None:
    """End runs, all claims of which must hold."""
    settlements = [ended(record, how or COMPLETED) for record in records]
    assert (await store.jobs.settle(settlements)).applied == [True] * len(settlements)


COMPLETED = Ended(kind="returned", result=b'"done"')
RAISED = Ended(kind="raised", failure=Failure("raised", "boom", "ValueError", "Traceback…"))
FAILED = Ended(kind="failed", failure=Failure("failed", "no way", "Fail"))
CRASHED = Ended(kind="crashed", failure=Failure("crashed", "gone"))
POLICY = RunPolicy(attempts=3, backoff=Backoff("fixed", 5_000, 5_000, "none"))


def ended(record: JobRecord, how: Ended = COMPLETED, policy: RunPolicy = POLICY) -> Settlement:
    """The settlement of a run that began and ended in one instant."""
    return Settlement(record.claim, outcome(record, how, policy))


def outcome(record: JobRecord, how: Ended = COMPLETED, policy: RunPolicy = POLICY) -> Outcome:
    return decide(how, record, policy, now_ms=record.started_ms or 0, draw=0.5)
