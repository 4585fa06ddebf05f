"""Contract of `UniqueRule`: how long a key is held. Without one: see `enqueue`; what newcomers do: see `replacing`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import structs

from workfleet.model.jobs import Enqueued, JobRecord, JobState, UniqueRule
from workfleet.model.outcome import GIVE_BACK, Ended
from workfleet.ports.jobs import JobQuery, PruneRule
from workfleet.ports.stores import Store

from .harness import FAILED, ManualClock, claim, finish, ids, job, states

FINISHED = UniqueRule()
STARTED = UniqueRule(until="started")
WINDOW = UniqueRule(window_ms=1_000)
REPLACE = UniqueRule(on_conflict="replace")
DEBOUNCE = UniqueRule(on_conflict="debounce")


def keyed(job_id: str, rule: UniqueRule = FINISHED, **said: Any) -> JobRecord:
    """A job with the key "k"."""
    return job(job_id, unique_key="k", unique=rule, **said)


async def add(store: Store, record: JobRecord, call: str | None = None) -> Enqueued:
    """Enqueue one job."""
    (answer,) = await store.jobs.enqueue([record], call=call)
    return answer


@pytest.mark.asyncio
class TestUntilStarted:
    async def test_the_key_is_free_at_the_first_claim_and_stays_so(self, store: Store, clock: ManualClock) -> None:
        assert await add(store, keyed("a", STARTED, delay_ms=50)) == Enqueued("a", created=True)
        assert await add(store, keyed("b", STARTED)) == Enqueued("a", created=False)
        await clock.advance(50)
        (first,) = await claim(store)
        assert await add(store, keyed("c", STARTED)) == Enqueued("c", created=True)
        await finish(store, [first], GIVE_BACK)
        assert await add(store, keyed("d", STARTED)) == Enqueued("c", created=False)
        assert ids(await claim(store, 9)) == "a c"
        assert await add(store, keyed("e", STARTED)) == Enqueued("e", created=True)

    async def test_the_holders_rule_counts_not_the_newcomers(self, store: Store) -> None:
        await add(store, keyed("a"))
        await claim(store)
        assert await add(store, keyed("b", STARTED)) == Enqueued("a", created=False)

    async def test_a_retried_job_takes_its_key_again_if_it_is_free(self, store: Store) -> None:
        await add(store, keyed("a", STARTED))
        await finish(store, await claim(store), FAILED)
        await add(store, keyed("b", STARTED))
        assert await store.jobs.retry(["a"]) == [False]
        await claim(store)
        assert await store.jobs.retry(["a"]) == [True]
        assert await add(store, keyed("c", STARTED)) == Enqueued("a", created=False)

    async def test_cancel_delete_and_purge_free_it(self, store: Store) -> None:
        for number, ending in enumerate(("cancel", "delete", "purge")):
            assert await add(store, keyed(f"j{number}", STARTED, delay_ms=9_000)) == Enqueued(
                f"j{number}", created=True
            )
            if ending == "cancel":
                await store.jobs.cancel([f"j{number}"])
            elif ending == "delete":
                await store.jobs.delete([f"j{number}"])
            else:
                await store.jobs.purge("q", [JobState.DELAYED])
        assert await add(store, keyed("last", STARTED)) == Enqueued("last", created=True)


@pytest.mark.asyncio
class TestUniqueWindow:
    async def test_holds_to_the_very_instant_whatever_becomes_of_the_job(
        self, store: Store, clock: ManualClock
    ) -> None:
        await add(store, keyed("a", WINDOW))
        await finish(store, await claim(store))
        await clock.advance(999)
        assert await add(store, keyed("b", WINDOW)) == Enqueued("a", created=False)
        await clock.advance(1)
        assert await add(store, keyed("b", WINDOW)) == Enqueued("b", created=True)
        assert await add(store, keyed("c", WINDOW)) == Enqueued("b", created=False)

    async def test_ends_though_the_job_still_waits_or_runs(self, store: Store, clock: ManualClock) -> None:
        await add(store, keyed("a", WINDOW))
        await claim(store)
        await clock.advance(1_000)
        assert (await add(store, keyed("b", WINDOW))).created
        await clock.advance(1_000)
        assert (await add(store, keyed("c", WINDOW))).created
        assert await states(store, "a b c") == "active waiting waiting"

    async def test_the_end_of_an_older_job_frees_nothing(self, store: Store, clock: ManualClock) -> None:
        await add(store, keyed("a", WINDOW))
        (first,) = await claim(store)
        await clock.advance(1_000)
        await add(store, keyed("b"))
        await finish(store, [first])
        assert await add(store, keyed("c")) == Enqueued("b", created=False)

    async def test_outlives_a_pruned_and_a_deleted_job(self, store: Store, clock: ManualClock) -> None:
        await add(store, keyed("a", WINDOW))
        await finish(store, await claim(store))
        await add(store, job("x", unique_key="other", unique=WINDOW))
        assert await store.jobs.delete(["x"]) == [True]
        assert await store.jobs.prune([PruneRule(JobState.COMPLETED, count=0)]) == 1
        for rule in (WINDOW, REPLACE):
            assert await add(store, keyed("b", rule)) == Enqueued("a", created=False)
        assert await add(store, job("y", unique_key="other")) == Enqueued("x", created=False)
        await clock.advance(1_000)
        assert await add(store, keyed("b", WINDOW)) == Enqueued("b", created=True)
        assert await add(store, job("y", unique_key="other")) == Enqueued("y", created=True)

    async def test_a_retry_begins_a_new_one_and_respects_anothers(self, store: Store, clock: ManualClock) -> None:
        await add(store, keyed("a", WINDOW))
        await finish(store, await claim(store), FAILED)
        await clock.advance(500)
        assert await store.jobs.retry(["a"]) == [True]
        await clock.advance(999)
        assert await add(store, keyed("b", WINDOW)) == Enqueued("a", created=False)
        await finish(store, await claim(store), FAILED)
        await clock.advance(1)
        assert (await add(store, keyed("b", WINDOW))).created
        assert await store.jobs.retry(["a"]) == [False]
        await clock.advance(1_000)
        assert await store.jobs.retry(["a"]) == [True]


@pytest.mark.asyncio
class TestKeysUnderRace:
    @pytest.mark.parametrize("on_conflict", ["keep", "replace", "debounce"])
    @pytest.mark.parametrize("rule", [FINISHED, STARTED, WINDOW, UniqueRule(until="started", exclusive=True)], ids=str)
    async def test_fifty_at_once_make_one_job_and_all_get_its_id(
        self, store: Store, rule: UniqueRule, on_conflict: str
    ) -> None:
        said = structs.replace(rule, on_conflict=on_conflict)
        answers = await asyncio.gather(*(add(store, keyed(f"j{n}", said), call=f"c{n}") for n in range(50)))
        (record,) = await store.jobs.find(JobQuery())
        assert {answer.id for answer in answers} == {record.id}
        assert sum(answer.created for answer in answers) == 1
        assert sum(answer.replaced for answer in answers) == (0 if on_conflict == "keep" else 49)

    async def test_claims_between_enqueues(self, store: Store) -> None:
        async def both(number: int) -> Enqueued:
            answer = await add(store, keyed(f"j{number}", STARTED))
            await finish(store, await claim(store), Ended(kind="returned"))
            return answer

        answers = await asyncio.gather(*(both(number) for number in range(30)))
        made = {answer.id for answer in answers if answer.created}
        done = await store.jobs.find(JobQuery())
        assert {record.id for record in done} == made
        assert {record.state for record in done} == {JobState.COMPLETED}
        assert {answer.id for answer in answers} == made
