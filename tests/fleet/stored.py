"""A running fleet's store, as another process sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from tests.fleet.running import TIMEOUT_S
from workfleet.clock import SystemClock
from workfleet.model.jobs import FINISHED, JobRecord
from workfleet.ports.stores import Store
from workfleet.stores.open import open_store

T = TypeVar("T")


@asynccontextmanager
async def stored(folder: Path, app: str = "hard") -> AsyncIterator[Store]:
    store = await open_store(f"sqlite:///{folder}/store.db", app=app, clock=SystemClock(), create=True)
    try:
        yield store
    finally:
        await store.close()


async def put(store: Store, job_id: str, *, name: str, queue: str, payload: object = None) -> str:
    record = JobRecord(id=job_id, queue=queue, name=name, payload=msgspec.json.encode(payload))
    assert [answer.created for answer in await store.jobs.enqueue([record])] == [True]
    return job_id


async def finished(store: Store, job_id: str) -> JobRecord:
    """The job once it has finished."""

    async def look() -> JobRecord | None:
        (record,) = await store.jobs.get([job_id])
        assert record is not None, f"{job_id} is lost"
        return record if record.state in FINISHED else None

    return await until(look, f"{job_id} has finished")


async def until(look: Callable[[], Awaitable[T | None]], what: str) -> T:
    """What is looked for, once it is there."""
    deadline = asyncio.get_running_loop().time() + TIMEOUT_S
    while (found := await look()) is None:
        assert asyncio.get_running_loop().time() < deadline, f"waited in vain: {what}"
        await asyncio.sleep(0.02)
    return found
