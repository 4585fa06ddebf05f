"""What `workfleet bench` does with a store: it works as an application of its own, and leaves no job behind.

It goes through the store's seam alone, as workers do, so that it measures the store and not a handler."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct

from ..errors import StoreUnavailable, UsageError
from ..ids import new_id, new_token
from ..model.fleet import LockHeld
from ..model.jobs import JobRecord, JobState
from ..model.outcome import Ended, RunPolicy, Settlement, decide
from ..ports.clock import Clock
from ..ports.jobs import ClaimRequest, TakeOver, Want
from ..ports.stores import Store
from ..stores.open import MEMORY, open_store

APP = "workfleet-bench"
_QUEUE, _WORKER, _LOCK = "bench", "workfleet-bench", "bench"
_PAYLOAD = b'{"user_id":7,"address":"ada@example.org","subject":"Your order has been shipped","tags":["order"]}'
_BATCH, _SLOTS, _LEASE_MS = 1_000, 200, 60_000
_ONE_BY_ONE, _LATENCIES = 200, 100
_LOCK_MS, _RENEW_S = 60_000, 20.0
_APART_S, _WAIT_MS, _LATE_S = 0.01, 1_000, 30.0
_DELETABLE = tuple(state for state in JobState if state is not JobState.ACTIVE)


class Figures(Struct, frozen=True):
    """Jobs a second, and how long a call took: the median and the 99th percentile."""

    jobs_per_s: float
    p50_ms: float
    p99_ms: float


async def measured(url: str, jobs: int, clock: Clock) -> dict[str, Figures]:
    """Measure the store at that URL with so many jobs. Raises `StoreUnavailable`, and `UsageError` while it is being
    measured already."""
    store = await open_store(url, app=APP, clock=clock, create=True)
    # A worker is another process, so what it hears of a job has to come through the store.
    worker = store if url == MEMORY else await open_store(url, app=APP, clock=clock, create=False)
    try:
        async with _alone(store, clock), _clean(store, clock):
            return {
                "enqueue_many": await _enqueue(store, clock, jobs, _BATCH),
                "enqueue": await _enqueue(store, clock, min(jobs, _ONE_BY_ONE), 1),
                "work": await _work(store, clock),
                "latency": await _latency(store, worker, clock),
            }
    finally:
        if worker is not store:
            await worker.close()
        await store.close()


@asynccontextmanager
async def _alone(store: Store, clock: Clock) -> AsyncIterator[None]:
    """Nobody else measures this store meanwhile: two would count and delete each other's jobs."""
    owner = new_token()
    if isinstance(await store.locks.acquire(_LOCK, owner, _LOCK_MS), LockHeld):
        raise UsageError("this store is being measured by another `workfleet bench`: wait until it has ended")

    async def renew() -> None:
        while True:
            await clock.sleep(_RENEW_S)
            await store.locks.renew(_LOCK, owner, _LOCK_MS)

    renewing = asyncio.create_task(renew())
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        await store.locks.release(_LOCK, owner)


@asynccontextmanager
async def _clean(store: Store, clock: Clock) -> AsyncIterator[None]:
    """No job before (an earlier run may have been killed), none after."""
    await _forget_all(store, clock)
    try:
        yield
    finally:
        await _forget_all(store, clock)


async def _forget_all(store: Store, clock: Clock) -> None:
    request = TakeOver(_WORKER, new_token(), _LEASE_MS, limit=_BATCH, workers=(_WORKER,))
    while held := await store.jobs.take_over(request):
        await store.jobs.settle(_ended(held, clock))
        request = TakeOver(_WORKER, new_token(), _LEASE_MS, limit=_BATCH, workers=(_WORKER,))
    while await store.jobs.purge(_QUEUE, _DELETABLE, _BATCH):
        pass


async def _enqueue(store: Store, clock: Clock, jobs: int, batch: int) -> Figures:
    """So many jobs, `batch` a call."""
    took: list[float] = []
    for start in range(0, jobs, batch):
        records = [_job(clock) for _ in range(min(batch, jobs - start))]
        begun = clock.monotonic()
        await store.jobs.enqueue(records)
        took.append(clock.monotonic() - begun)
    return _figures(jobs, took)


async def _work(store: Store, clock: Clock) -> Figures:
    """Work off what there is: settle and claim in one call, as a worker does."""
    done, took = 0, list[float]()
    held = await store.jobs.claim(_request(_SLOTS))
    while held:
        begun = clock.monotonic()
        answer = await store.jobs.settle(_ended(held, clock), _request(_SLOTS))
        took.append(clock.monotonic() - begun)
        done, held = done + len(held), answer.claimed
    return _figures(done, took)


async def _latency(store: Store, worker: Store, clock: Clock) -> Figures:
    """One job at a time, sent while a worker waits for it."""
    took: list[float] = []
    for _ in range(_LATENCIES):
        receiving = asyncio.create_task(_received(worker, clock))
        await clock.sleep(_APART_S)
        begun = clock.monotonic()
        try:
            await store.jobs.enqueue([_job(clock)])
            held, at = await receiving
        finally:
            receiving.cancel()
        took.append(at - begun)
        await store.jobs.settle(_ended(held, clock))
    return _figures(_LATENCIES, took)


async def _received(worker: Store, clock: Clock) -> tuple[list[JobRecord], float]:
    """Wait for a job and claim it: the job and when that was."""
    give_up = clock.monotonic() + _LATE_S
    while clock.monotonic() < give_up:
        await worker.jobs.wait([_QUEUE], _WAIT_MS)
        if held := await worker.jobs.claim(_request(1)):
            return held, clock.monotonic()
    raise StoreUnavailable("to measure", f"a job that was enqueued could not be claimed within {_LATE_S:.0f} s")


def _job(clock: Clock) -> JobRecord:
    return JobRecord(id=new_id(clock.now_ms()), queue=_QUEUE, name="noop", payload=_PAYLOAD)


def _request(limit: int) -> ClaimRequest:
    return ClaimRequest(_WORKER, new_token(), _LEASE_MS, (Want(_QUEUE, limit),))


def _ended(held: Sequence[JobRecord], clock: Clock) -> list[Settlement]:
    """All of them completed, decided as every end is."""
    returned, policy, now_ms = Ended(kind="returned", result=b"null"), RunPolicy(), clock.now_ms()
    return [Settlement(record.claim, decide(returned, record, policy, now_ms=now_ms, draw=0.0)) for record in held]


def _figures(jobs: int, took_s: Sequence[float]) -> Figures:
    """At least one call is needed; of a single one, both percentiles are its time."""
    times_ms = [seconds * 1000 for seconds in took_s] or [0.0]
    p99 = statistics.quantiles(times_ms, n=100, method="inclusive")[98] if len(times_ms) > 1 else times_ms[0]
    return Figures(jobs / max(sum(took_s), 1e-9), statistics.median(times_ms), p99)
