"""What the tests of `Jobs` and `Queues` do to a store first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from workfleet.model.fleet import WorkerRecord
from workfleet.model.jobs import Claim, Failure, JobRecord, JobState, UniqueRule
from workfleet.model.outcome import Outcome, Settlement
from workfleet.ports.jobs import ClaimRequest, JobQuery, Want
from workfleet.ports.stores import Store
from workfleet.supervision.identity import own_identity
from workfleet.testing.clock import TestClock

NOW = 1_800_000_000_000

NOW = 1_800_000_000_000
HOUR = 3_600_000


async def given(store: Store) -> Store:
    return store


async def add(store: Store, *ids: str, **facts: Any) -> None:
    await store.jobs.enqueue([JobRecord(**{"id": each, "queue": "q", "name": "n", **facts}) for each in ids])


async def claim(store: Store, queue: str = "q", limit: int = 1) -> list[JobRecord]:
    claimed = await store.jobs.claim(ClaimRequest("w", f"t{NOW}-{limit}", 30_000, (Want(queue, limit),)))
    assert len(claimed) == limit
    return claimed


async def finish(store: Store, claims: Sequence[Claim], state: JobState, message: str = "no") -> None:
    failure = Failure("raised", message, "ValueError") if state is JobState.FAILED else None
    outcome = Outcome(state=state, code=state.value, attempts_made=1, failure=failure)
    settled = await store.jobs.settle([Settlement(claim, outcome) for claim in claims])
    assert all(settled.applied)


async def failed(store: Store, *ids: str, message: str = "no", **facts: Any) -> None:
    await add(store, *ids, **{"queue": "failing", **facts})
    claimed = await claim(store, facts.get("queue", "failing"), len(ids))
    await finish(store, [job.claim for job in claimed], JobState.FAILED, message)


def ids(found: Sequence[JobRecord]) -> list[str]:
    return [job.id for job in found]


async def states(store: Store) -> dict[str, str]:
    return {job.id: job.state.value for job in await store.jobs.find(JobQuery(limit=1_000_000))}


async def park(store: Store) -> None:
    """`first` runs under the key, `second` waits for its end."""
    rule = UniqueRule(until="started", exclusive=True)
    await add(store, "first", unique_key="k", unique=rule)
    await claim(store)
    await add(store, "second", unique_key="k", unique=rule)


async def sleeping(clock: TestClock) -> None:
    """Wait until somebody sleeps on the clock."""
    async with asyncio.timeout(10):
        while not clock.sleepers:
            await asyncio.sleep(0.001)


async def wake(clock: TestClock) -> None:
    """Let the sleeper look, and sleep again."""
    clock.move_to(clock.now_ms() + 2_000)
    await sleeping(clock)


async def listen(store: Store, *names: str) -> None:
    await store.fleet.register(WorkerRecord(id="w", identity=own_identity(), queues=names))
