"""The event stream of a queue, which Node's `QueueEvents` reads. `tests/node` compares its fields with Node's own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.stores.redis.bullmq_side import entries
from tests.stores.redis.servers import Server
from workfleet.clock import SystemClock
from workfleet.model.jobs import Failure, JobRecord, JobState
from workfleet.model.outcome import Outcome, Settlement
from workfleet.ports.jobs import ClaimRequest, Want
from workfleet.stores.redis.store import RedisStore


@pytest_asyncio.fixture
async def store(server: Server) -> AsyncIterator[RedisStore]:
    opened = await RedisStore.open(server.url, app="shop", clock=SystemClock(), prefix="bull")
    yield opened
    await opened.close()


def jobs(*ids: str, **said: int) -> list[JobRecord]:
    return [JobRecord(id=each, queue="q", name="n", **said) for each in ids]  # type: ignore[arg-type]


async def test_a_jobs_life(store: RedisStore, server: Server) -> None:
    await store.jobs.enqueue(jobs("a"))
    await store.jobs.enqueue(jobs("a"))
    (record,) = await store.jobs.claim(ClaimRequest("w", "t", 30_000, (Want("q", 1),)))
    await store.jobs.report(record.claim, progress=b'{"at":1}')
    failure = Failure("raised", "no luck")
    failed = Outcome(state=JobState.FAILED, code="raised", failure=failure, attempts_made=3)
    await store.jobs.settle([Settlement(record.claim, failed)])
    await store.queues.set_paused("q", paused=True)
    await store.queues.set_paused("q", paused=False)
    await store.jobs.delete(["a"])
    assert entries(server, "q") == [
        {"event": "added", "jobId": "a", "name": "n"},
        {"event": "waiting", "jobId": "a"},
        {"event": "duplicated", "jobId": "a"},
        {"event": "active", "jobId": "a", "prev": "waiting"},
        {"event": "progress", "jobId": "a", "data": '{"at":1}'},
        {"event": "failed", "jobId": "a", "failedReason": "no luck", "prev": "active"},
        {"event": "retries-exhausted", "jobId": "a", "attemptsMade": "3"},
        {"event": "drained"},
        {"event": "paused"},
        {"event": "resumed"},
        {"event": "removed", "jobId": "a", "prev": "failed"},
    ]


async def test_it_is_trimmed_to_what_the_queue_says(store: RedisStore, server: Server) -> None:
    await store.jobs.enqueue(jobs("first"))
    assert server.ask("HGET", "bull:q:meta", "opts.maxLenEvents") == b"10000"
    server.ask("HSET", "bull:q:meta", "opts.maxLenEvents", 200)
    for batch in range(10):
        await store.jobs.enqueue(jobs(*(f"{batch}-{number}" for number in range(100))))
    length = server.ask("XLEN", "bull:q:events")
    # Trimming drops whole nodes of the stream, 100 entries each.
    assert isinstance(length, int)
    assert 200 <= length < 400
