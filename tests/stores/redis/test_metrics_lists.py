"""BullMQ's metrics: counts of what ended in each minute, as `getMetrics` reads them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.stores.redis.bullmq_side import fields, texts
from tests.stores.redis.servers import Server
from workfleet.clock import SystemClock
from workfleet.errors import ConfigError
from workfleet.model.jobs import Claim, Failure, JobRecord, JobState
from workfleet.model.outcome import Outcome, Settlement
from workfleet.ports.jobs import ClaimRequest, Want
from workfleet.stores.open import METRICS, PREFIX, open_store, with_options
from workfleet.stores.redis.store import RedisStore
from workfleet.testing.contracts.harness import finish
from workfleet.testing.contracts.harness import jobs as plain

MINUTE = 60_000
NOW = 1_800_000_000_000  # on the minute


class Ends:
    """Ends jobs at a time of its own."""

    def __init__(self) -> None:
        self.now, self._count = NOW, 0

    async def end(self, store: RedisStore, count: int, state: JobState = JobState.COMPLETED) -> None:
        self._count += 1
        jobs = [JobRecord(id=f"{self._count}-{number}", queue="q", name="n") for number in range(count)]
        await store.jobs.enqueue(jobs)
        records = await store.jobs.claim(ClaimRequest("w", f"t{self._count}", 30_000, (Want("q", count),)))
        assert len(records) == count
        await store.jobs.settle([Settlement(record.claim, _outcome(state)) for record in records])


def _outcome(state: JobState) -> Outcome:
    if state is JobState.COMPLETED:
        return Outcome(state=state, code="completed", result=b"1", attempts_made=1)
    return Outcome(state=state, code="failed", failure=Failure("raised", "no"), attempts_made=1)


@pytest.fixture
def ends() -> Ends:
    return Ends()


@asynccontextmanager
async def opened(server: Server, ends: Ends, minutes: int | None) -> AsyncIterator[RedisStore]:
    store = await RedisStore.open(
        server.url, app="shop", clock=SystemClock(), prefix="bull", metrics_minutes=minutes,
        test_now_ms=lambda: ends.now,
    )  # fmt: skip
    try:
        yield store
    finally:
        await store.close()


def kept(server: Server, state: str = "completed") -> tuple[dict[str, int], list[int]]:
    counts = {name: int(value) for name, value in fields(server, f"bull:q:metrics:{state}").items()}
    return counts, [int(text) for text in texts(server.ask("LRANGE", f"bull:q:metrics:{state}:data", 0, -1))]


async def test_counts_by_the_minute(server: Server, ends: Ends) -> None:
    async with opened(server, ends, 100) as store:
        await ends.end(store, 3)
        assert kept(server) == ({"count": 3, "prevTS": NOW, "prevCount": 0}, [])
        ends.now += MINUTE - 1
        await ends.end(store, 2)
        assert kept(server) == ({"count": 5, "prevTS": NOW, "prevCount": 0}, [])
        ends.now += 1
        await ends.end(store, 4)
        # The minute before is written; the first of a batch belongs to the new one.
        assert kept(server) == ({"count": 9, "prevTS": NOW + MINUTE, "prevCount": 5}, [5])
        ends.now += 3 * MINUTE
        await ends.end(store, 1)
        assert kept(server) == ({"count": 10, "prevTS": NOW + 4 * MINUTE, "prevCount": 9}, [0, 0, 4, 5])
    assert kept(server, "failed") == ({}, [])


async def test_runs_like_most_are_counted_too(server: Server, ends: Ends) -> None:
    async with opened(server, ends, 10) as store:
        await store.jobs.enqueue(plain("a b c"))
        await finish(store, await store.jobs.claim(ClaimRequest("w", "t", 30_000, (Want("q", 3),))))
    assert kept(server)[0]["count"] == 3


async def test_failed_ones_are_counted_apart(server: Server, ends: Ends) -> None:
    async with opened(server, ends, 100) as store:
        await ends.end(store, 2)
        await ends.end(store, 3, JobState.FAILED)
        ends.now += MINUTE
        await ends.end(store, 1, JobState.FAILED)
    assert kept(server)[0]["count"] == 2
    assert kept(server, "failed") == ({"count": 4, "prevTS": NOW + MINUTE, "prevCount": 3}, [3])


async def test_no_more_minutes_are_kept_than_asked_for(server: Server, ends: Ends) -> None:
    async with opened(server, ends, 3) as store:
        await ends.end(store, 1)
        for count in (2, 3, 4, 5):
            ends.now += MINUTE
            await ends.end(store, count)
        assert kept(server)[1] == [4, 3, 2]
        ends.now += 1_000_000 * MINUTE
        await ends.end(store, 1)
        assert kept(server)[1] == [0, 0, 5]


async def test_a_retry_a_cancel_and_a_stale_claim_count_nothing(server: Server, ends: Ends) -> None:
    async with opened(server, ends, 3) as store:
        await store.jobs.enqueue([JobRecord(id=name, queue="q", name="n") for name in "ab"])
        (record,) = await store.jobs.claim(ClaimRequest("w", "t", 30_000, (Want("q", 1),)))
        again = Outcome(state=JobState.DELAYED, code="raised", failure=Failure("raised", "no"), attempts_made=1)
        await store.jobs.settle([Settlement(record.claim, again)])
        stale = Settlement(Claim(record.id, "other", record.queue), _outcome(JobState.COMPLETED))
        assert (await store.jobs.settle([stale])).applied == [False]
        assert await store.jobs.cancel(["b"]) == ["cancelled"]
    assert (kept(server), kept(server, "failed")) == (({}, []), ({}, []))


async def test_nothing_is_counted_unless_asked(server: Server, ends: Ends) -> None:
    async with opened(server, ends, None) as store:
        await ends.end(store, 2)
    assert server.ask("EXISTS", "bull:q:metrics:completed") == 0


async def test_a_stores_url_asks_for_it(server: Server, ends: Ends) -> None:
    """As `queue_metrics` of the settings writes it."""
    url = with_options(server.url, {PREFIX: "bull", METRICS: "60"})
    store = await open_store(url, app="shop", clock=SystemClock(), create=False)
    assert isinstance(store, RedisStore)
    try:
        await ends.end(store, 3)
    finally:
        await store.close()
    assert kept(server)[0]["count"] == 3
    wrong = with_options(server.url, {METRICS: "an hour"})
    with pytest.raises(ConfigError, match="queue_metrics is a number of minutes"):
        await open_store(wrong, app="shop", clock=SystemClock(), create=False)
