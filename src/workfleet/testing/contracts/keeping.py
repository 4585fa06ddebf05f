"""Contract of `JobStore.retry` and `JobStore.prune`."""

from __future__ import annotations

import pytest

from workfleet.model.jobs import JobState
from workfleet.model.outcome import Ended
from workfleet.ports.jobs import JobQuery, PruneRule
from workfleet.ports.stores import Store

from .harness import COMPLETED, FAILED, ManualClock, claim, ended, ids, job, jobs, stored


async def run(store: Store, names: str, how: Ended = COMPLETED, **said: object) -> None:
    """Enqueue jobs and run them to their end."""
    await store.jobs.enqueue(jobs(names, **said))
    await store.jobs.settle([ended(record, how) for record in await claim(store, 100)])


@pytest.mark.asyncio
class TestRetry:
    async def test_a_failed_job_is_as_new_but_for_its_history_and_logs(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue([job("a", priority=4)])
        (record,) = await claim(store)
        await store.jobs.report(record.claim, progress=b"1", lines=["line"])
        await store.jobs.settle([ended(record, FAILED)])
        await clock.advance(60)
        assert await store.jobs.retry(["a"]) == [True]
        again = await stored(store, "a")
        assert (again.state, again.due_ms, again.created_ms) == (
            JobState.PRIORITIZED,
            record.created_ms + 60,
            record.created_ms,
        )
        assert (again.attempts_made, again.crashes, again.deferrals) == (0, 0, 0)
        assert (again.started_ms, again.finished_ms, again.outcome, again.result) == (None, None, None, None)
        assert (again.failure, again.progress) == (None, None)
        assert [attempt.outcome for attempt in again.history] == ["failed"]
        assert await store.jobs.logs("a") == ["line"]
        await store.jobs.settle([ended(record) for record in await claim(store)])
        assert [attempt.outcome for attempt in (await stored(store, "a")).history] == ["failed", "completed"]

    async def test_only_what_has_failed(self, store: Store) -> None:
        await run(store, "done")
        await run(store, "failed", FAILED)
        await store.jobs.enqueue([job("waiting")])
        assert await store.jobs.retry(["done", "failed", "waiting", "nobody"]) == [False, True, False, False]
        assert await store.jobs.retry(["failed"]) == [False]
        assert await store.jobs.retry([]) == []

    async def test_not_while_another_job_has_its_unique_key(self, store: Store) -> None:
        await run(store, "a", FAILED, unique_key="k")
        await store.jobs.enqueue([job("b", unique_key="k")])
        assert await store.jobs.retry(["a"]) == [False]
        assert (await stored(store, "a")).state is JobState.FAILED
        await store.jobs.settle([ended(record) for record in await claim(store)])
        assert await store.jobs.retry(["a"]) == [True]

    async def test_it_joins_the_end_of_the_line(self, store: Store, clock: ManualClock) -> None:
        await run(store, "a", FAILED)
        await clock.advance(1)
        await store.jobs.enqueue(jobs("b"))
        await clock.advance(1)
        await store.jobs.retry(["a"])
        assert ids(await claim(store, 2)) == "b a"


@pytest.mark.asyncio
class TestPrune:
    async def test_by_age(self, store: Store, clock: ManualClock) -> None:
        await run(store, "old")
        await clock.advance(100)
        await run(store, "new")
        rule = [PruneRule(JobState.COMPLETED, age_ms=100)]
        assert await store.jobs.prune(rule) == 0
        await clock.advance(1)
        assert await store.jobs.prune(rule) == 1
        assert ids(await store.jobs.find(JobQuery())) == "new"

    async def test_by_count_of_each_queue(self, store: Store, clock: ManualClock) -> None:
        for name in ("a", "b", "c"):
            await run(store, name)
            await clock.advance(1)
        await store.jobs.enqueue([job("r", queue="r")])
        assert await store.jobs.prune([PruneRule(JobState.COMPLETED, count=2)]) == 1
        assert ids(await store.jobs.find(JobQuery())) == "r c b"
        assert await store.jobs.prune([PruneRule(JobState.COMPLETED, count=0)]) == 2

    async def test_each_rule_is_about_its_state_and_kind(self, store: Store, clock: ManualClock) -> None:
        await run(store, "done")
        await run(store, "failed", FAILED)
        await run(store, "own", housekeeping=True)
        await store.jobs.enqueue(jobs("waiting active"))
        await claim(store)
        await clock.advance(9)
        assert await store.jobs.prune([PruneRule(JobState.COMPLETED, age_ms=5, count=0)]) == 1
        assert await store.jobs.prune([PruneRule(JobState.COMPLETED, count=0, housekeeping=True)]) == 1
        assert await store.jobs.prune([PruneRule(JobState.FAILED, age_ms=9)]) == 0
        assert ids(await store.jobs.find(JobQuery())) == "waiting failed active"

    async def test_at_most_the_limit_the_oldest_first(self, store: Store, clock: ManualClock) -> None:
        for name in ("a", "b", "c"):
            await run(store, name)
            await clock.advance(1)
        assert await store.jobs.prune([PruneRule(JobState.COMPLETED, age_ms=0)], limit=2) == 2
        assert ids(await store.jobs.find(JobQuery())) == "c"

    async def test_with_logs_and_all(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue([job("a", payload=b"1", unique_key="k")])
        (record,) = await claim(store)
        await store.jobs.report(record.claim, progress=b"1", lines=["line"])
        await store.jobs.settle([ended(record)])
        await store.jobs.prune([PruneRule(JobState.COMPLETED, count=0)])
        assert await store.jobs.get(["a"]) == [None]
        assert await store.jobs.logs("a") == []
        (again,) = await store.jobs.enqueue([job("a", payload=b"2", unique_key="k")])
        assert again.created
        fresh = await stored(store, "a")
        assert (fresh.payload, fresh.progress, fresh.history) == (b"2", None, ())
        assert await store.jobs.logs("a") == []

    async def test_no_rule_deletes_no_job(self, store: Store) -> None:
        await run(store, "a")
        assert await store.jobs.prune([]) == 0
        assert await store.jobs.prune([PruneRule(JobState.COMPLETED)]) == 0
