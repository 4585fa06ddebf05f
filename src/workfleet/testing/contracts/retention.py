"""Contract of what a job says of its own: when it expires, and how long it is kept when it has finished."""

from __future__ import annotations

import pytest

from workfleet.model.jobs import JobState, Keep, KeepRule
from workfleet.model.outcome import Ended
from workfleet.ports.jobs import JobQuery, PruneRule
from workfleet.ports.stores import Store

from .harness import COMPLETED, FAILED, ManualClock, claim, ended, finish, ids, job, jobs, state, stored

EVERYTHING = [PruneRule(JobState.COMPLETED, count=0), PruneRule(JobState.FAILED, count=0)]
COUNT_2 = Keep(completed=KeepRule(count=2))
NONE = Keep(KeepRule(count=0), KeepRule(count=0))
AGE_100 = Keep(completed=KeepRule(age_ms=100), failed=KeepRule(age_ms=500))


async def run(store: Store, names: str, keep: Keep, how: Ended = COMPLETED, **said: object) -> None:
    """Enqueue jobs and run them to their end."""
    await store.jobs.enqueue(jobs(names, keep=keep, **said))
    await finish(store, await claim(store, 100), how)


@pytest.mark.asyncio
class TestExpiry:
    async def test_is_the_earlier_of_what_was_said(self, store: Store, clock: ManualClock) -> None:
        now = await store.now_ms()
        await store.jobs.enqueue(
            [
                job("none"),
                job("after", expires_after_ms=500),
                job("at", expires_ms=now + 700),
                job("first", expires_after_ms=500, expires_ms=now + 300),
                job("second", expires_after_ms=200, expires_ms=now + 300),
                job("delayed", expires_after_ms=100, delay_ms=50),
            ]
        )
        names = ["none", "after", "at", "first", "second", "delayed"]
        expected = [None, 500, 700, 300, 200, 100]
        records = [await stored(store, name) for name in names]
        assert [record.expires_ms and record.expires_ms - now for record in records] == expected
        assert [record.expires_after_ms for record in records] == [None, 500, None, 500, 200, 100]

    async def test_it_goes_with_the_job_and_a_retry_never_expires(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue([job("a", expires_after_ms=500)])
        await clock.advance(600)
        # Whether it still starts is for its worker to decide: the store hands it out with its expiry.
        (record,) = await claim(store)
        assert record.expires_ms == await store.now_ms() - 100
        await finish(store, [record], Ended(kind="expired"))
        expired = await stored(store, "a")
        assert (expired.state, expired.outcome, expired.attempts_made) == (JobState.FAILED, "expired", 0)
        assert await store.jobs.retry(["a"]) == [True]
        (again,) = await claim(store)
        assert again.expires_ms is None


@pytest.mark.asyncio
class TestKeep:
    async def test_what_has_a_rule_of_its_own_is_nobody_elses_business(self, store: Store, clock: ManualClock) -> None:
        await run(store, "own", AGE_100)
        await run(store, "other", Keep(failed=KeepRule(age_ms=0)))
        await run(store, "plain", Keep())
        await run(store, "failed", COUNT_2, FAILED)
        assert await store.jobs.prune(EVERYTHING) == 3
        assert ids(await store.jobs.find(JobQuery())) == "own"

    async def test_by_age_to_the_very_instant_without_any_rule_given(self, store: Store, clock: ManualClock) -> None:
        await run(store, "done", AGE_100)
        await run(store, "failed", AGE_100, FAILED)
        await clock.advance(100)
        assert await store.jobs.prune([]) == 0
        await clock.advance(1)
        assert await store.jobs.prune([]) == 1
        assert ids(await store.jobs.find(JobQuery())) == "failed"
        await clock.advance(399)
        assert await store.jobs.prune([]) == 0
        await clock.advance(1)
        assert await store.jobs.prune([]) == 1

    async def test_by_count_among_those_of_its_queue_and_state_with_the_same_rule(
        self, store: Store, clock: ManualClock
    ) -> None:
        for number in range(1, 5):
            await run(store, f"a{number}", COUNT_2)
            await run(store, f"b{number}", Keep(completed=KeepRule(count=1)))
            await run(store, f"p{number}", Keep())
            await clock.advance(1)
        await run(store, "f1 f2 f3", COUNT_2, FAILED)
        await store.jobs.enqueue(jobs("r1 r2", queue="r", keep=COUNT_2))
        for _ in range(2):
            await clock.advance(1)
        assert await store.jobs.prune([]) == 2 + 3
        assert ids(await store.jobs.find(JobQuery(queue="q", states=(JobState.COMPLETED,)))) == "p4 b4 a4 p3 a3 p2 p1"
        assert await state(store, "r1") == "waiting"

    @pytest.mark.parametrize("how", [COMPLETED, FAILED])
    async def test_nothing_is_kept_at_all(self, store: Store, how: Ended) -> None:
        await store.jobs.enqueue([*jobs("a b", keep=NONE), job("u", keep=NONE, unique_key="k")])
        await store.jobs.enqueue([job("other", keep=Keep(KeepRule(), KeepRule()))])
        done = [ended(record, how) for record in await claim(store, 9)]
        assert (await store.jobs.settle(done)).applied == [True] * 4
        # Gone at once, or with the next clean-up; whoever repeats the call hears what it has heard.
        assert (await store.jobs.settle(done)).applied == [True] * 4
        await store.jobs.prune([])
        assert ids(await store.jobs.find(JobQuery())) == "other"
        (again,) = await store.jobs.enqueue([job("u", unique_key="k")])
        assert again.created

    async def test_a_rule_without_limits_keeps_for_ever(self, store: Store, clock: ManualClock) -> None:
        await run(store, "a", Keep(completed=KeepRule()))
        await clock.advance(10**12)
        assert await store.jobs.prune(EVERYTHING) == 0

    async def test_age_and_count_both_end_it(self, store: Store, clock: ManualClock) -> None:
        for name in ("a", "b", "c"):
            await run(store, name, Keep(completed=KeepRule(age_ms=10, count=2)))
            await clock.advance(4)
        assert await store.jobs.prune([]) == 1
        await clock.advance(3)
        assert await store.jobs.prune([]) == 1
        assert ids(await store.jobs.find(JobQuery())) == "c"

    async def test_the_limit_holds_for_all_together(self, store: Store, clock: ManualClock) -> None:
        await run(store, "a b c", Keep(completed=KeepRule(age_ms=10)))
        await clock.advance(11)
        assert await store.jobs.prune([], limit=2) == 2
        assert ids(await store.jobs.find(JobQuery())) == "c"
        assert await store.jobs.prune([], limit=2) == 1

    async def test_of_the_products_own_jobs_too(self, store: Store) -> None:
        await run(store, "a b", Keep(completed=KeepRule(count=1)), housekeeping=True)
        assert await store.jobs.prune([PruneRule(JobState.COMPLETED, count=0, housekeeping=True)]) == 1
        assert ids(await store.jobs.find(JobQuery())) == "b"

    async def test_a_job_that_was_retried_is_not_finished(self, store: Store, clock: ManualClock) -> None:
        await run(store, "a", Keep(failed=KeepRule(age_ms=10)), FAILED)
        await clock.advance(11)
        await store.jobs.retry(["a"])
        assert await store.jobs.prune([]) == 0
        assert await state(store, "a") == "waiting"
