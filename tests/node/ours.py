"""Our side of the tests with Node: a worker's loop over a store, as short as it can be, and makers of jobs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from workfleet.ids import new_token
from workfleet.model.jobs import Failure, JobRecord
from workfleet.model.outcome import Ended, RunPolicy, Settlement, decide
from workfleet.model.policy import DEFAULT_BACKOFF, Backoff
from workfleet.ports.jobs import ClaimRequest, Want
from workfleet.ports.stores import Store

WORKER = "py1"
LEASE_MS = 30_000
Act = Callable[[JobRecord], Awaitable[Ended]]


def job(job_id: str, name: str = "ok", data: object = None, *, queue: str = "q", **said: Any) -> JobRecord:
    """A job to enqueue."""
    return JobRecord(id=job_id, name=name, queue=queue, payload=json.dumps(data).encode(), **said)


async def claim(store: Store, limit: int = 1, *, queue: str = "q", lease_ms: int = LEASE_MS) -> list[JobRecord]:
    return await store.jobs.claim(ClaimRequest(WORKER, new_token(), lease_ms, (Want(queue, limit),)))


def returned(value: object) -> Ended:
    return Ended(kind="returned", result=json.dumps(value).encode())


def raised(message: str, kind: str = "ValueError") -> Ended:
    trace = f'Traceback (most recent call last):\n  File "shop.py", line 7, in work\n{kind}: {message}'
    return Ended(kind="raised", failure=Failure("raised", message, kind, trace), raised=(kind,))


def policy_of(record: JobRecord, most: int = 3) -> RunPolicy:
    """What applies to a run where the handler says nothing, as the runner merges it."""
    attempts, backoff = record.run.attempts, record.run.backoff
    return RunPolicy(
        attempts=attempts if isinstance(attempts, int) else most,
        backoff=backoff if isinstance(backoff, Backoff) else DEFAULT_BACKOFF,
    )


def settlement(record: JobRecord, how: Ended, *, most: int = 3, draw: float = 0.5) -> Settlement:
    outcome = decide(how, record, policy_of(record, most), now_ms=record.started_ms or 0, draw=draw)
    return Settlement(record.claim, outcome)


async def finish(store: Store, record: JobRecord, how: Ended) -> None:
    """End a run, the claim of which must hold."""
    assert (await store.jobs.settle([settlement(record, how)])).applied == [True]


async def ok(record: JobRecord) -> Ended:
    """Return the payload, as Node's behaviour of that name."""
    return returned(json.loads(record.payload))


@asynccontextmanager
async def working(store: Store, act: Act = ok, *, queue: str = "q", limit: int = 1) -> AsyncIterator[list[JobRecord]]:
    """A worker that runs until the end of the block. The list is of the runs that it has begun, in their order."""
    runs: list[JobRecord] = []

    async def loop() -> None:
        while True:
            records = await claim(store, limit, queue=queue)
            runs.extend(records)
            for record in records:
                await store.jobs.settle([settlement(record, await act(record))])
            if not records:
                due = await store.jobs.next_due_ms([queue])
                wait = 500 if due is None else min(max(due - await store.now_ms(), 1), 500)
                await store.jobs.wait([queue], wait)

    task = asyncio.create_task(loop())
    try:
        yield runs
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(true: Callable[[], object], what: str, timeout_s: float = 60) -> None:
    """Wait for an event in this process."""
    try:
        async with asyncio.timeout(timeout_s):
            while not true():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"waited in vain for {what}") from None
