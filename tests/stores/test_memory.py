"""The memory store meets the contract, and leaves nothing behind that has neither an owner nor an expiry."""

from __future__ import annotations

import pytest

from workfleet.ports.clock import Clock
from workfleet.ports.stores import Store
from workfleet.stores.memory.store import MemoryStore
from workfleet.testing.contracts import *  # noqa: F403 - its tests and fixtures are collected from here
from workfleet.testing.contracts import Leaks, Opener


@pytest.fixture
def opener() -> Opener:
    stores: dict[str, MemoryStore] = {}

    async def open_again(app: str, clock: Clock) -> MemoryStore:
        return stores.setdefault(app, MemoryStore(app, clock))

    return open_again


@pytest.fixture
def leaks() -> Leaks:
    async def look(store: Store) -> list[str]:
        assert isinstance(store, MemoryStore)
        book, now = store.jobs._book, await store.now_ms()
        jobs, unfinished = book.entries, {name for jobs in book.open.values() for name in jobs}
        left = {
            "an unfinished job that is gone": unfinished - set(jobs),
            "an active job that is gone": set(book.active) - unfinished,
            "an active job in another state": {n for n, job in book.active.items() if job.record.state != "active"},
            "a finished job among the others": {name for name in unfinished & set(jobs) if jobs[name].finished},
            "a key of nobody": {
                key for key, hold in book.holds.items() if hold.until_ms is None and hold.job_id not in unfinished
            },
            "a key whose window is over": {
                key for key, hold in book.holds.items() if hold.until_ms is not None and hold.until_ms <= now
            },
            "a key that no job has": {k for k, same in book._by_key.items() if not same or set(same) - unfinished},
            "a newcomer's id": {name for name, job in book.replaced.items() if job.record.id not in jobs},
            "starts of long ago": {name for name, queue in book.queues.items() if queue.starts},
            "expired keys": set(store.keys._values),
            "expired locks": set(store.locks._grants),
            "fires of a schedule that is gone": set(store.schedules._last) - set(store.schedules._records),
        }
        return [f"{what}: {name}" for what, names in left.items() for name in sorted(names)]

    return look
