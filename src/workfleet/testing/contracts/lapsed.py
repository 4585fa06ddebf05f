"""Contract of unique keys whose holder has expired before anybody ran it, and of results that name who holds a key."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from workfleet.model.jobs import EXPIRED, Enqueued, JobState, UniqueRule
from workfleet.ports.stores import Store

from .exclusive import ONE_RUNS_ONE_WAITS
from .harness import COMPLETED, FAILED, RAISED, ManualClock, claim, ended, finish, ids, job, state, states, stored
from .unique import DEBOUNCE, FINISHED, REPLACE, STARTED, WINDOW, add, keyed

RULES = [FINISHED, STARTED, REPLACE, DEBOUNCE, ONE_RUNS_ONE_WAITS]


@pytest.mark.asyncio
class TestExpiredHolder:
    @pytest.mark.parametrize("rule", RULES, ids=str)
    @pytest.mark.parametrize("where", [{}, {"priority": 3}, {"delay_ms": 9_000}, {"group": "g"}], ids=str)
    async def test_fails_at_the_very_instant_when_a_newcomer_needs_its_key(
        self, store: Store, clock: ManualClock, rule: UniqueRule, where: dict[str, Any]
    ) -> None:
        await add(store, keyed("a", rule, expires_after_ms=100, **where))
        await clock.advance(99)
        kept = await add(store, keyed("b", structs.replace(rule, on_conflict="keep")))
        assert kept == Enqueued("a", created=False)
        await clock.advance(1)
        assert await add(store, keyed("c", rule), call="c") == Enqueued("c", created=True)
        assert await add(store, keyed("c", rule), call="c") == Enqueued("c", created=True)
        gone = await stored(store, "a")
        assert (gone.state, gone.outcome, gone.failure) == (JobState.FAILED, "expired", EXPIRED)
        assert (gone.finished_ms, gone.attempts_made, gone.history) == (await store.now_ms(), 0, ())
        assert ids(await claim(store, 9)) == "c"

    async def test_what_came_expired_holds_nothing_either(self, store: Store) -> None:
        late = [keyed(name, expires_ms=1) for name in "abc"]
        assert await store.jobs.enqueue(late) == [Enqueued(name, created=True) for name in "abc"]
        assert await states(store, "a b c") == "failed failed waiting"

    @pytest.mark.parametrize("rule", RULES, ids=str)
    async def test_stays_when_who_comes_is_there_already(
        self, store: Store, clock: ManualClock, rule: UniqueRule
    ) -> None:
        await store.jobs.enqueue([job("there"), keyed("run")])
        await finish(store, await claim(store, 2))
        await store.jobs.enqueue([keyed("a", rule), keyed("other", REPLACE, expires_after_ms=100)])
        await clock.advance(100)
        for known, stands in {"there": "there", "run": "run", "a": "a", "other": "a"}.items():
            assert await add(store, keyed(known, rule)) == Enqueued(stands, created=False)
        assert await state(store, "a") == "waiting"
        many = [keyed("run"), keyed("b"), keyed("there")]
        assert [added.created for added in await store.jobs.enqueue(many)] == [False, True, False]
        assert await states(store, "a b") == "failed waiting"

    async def test_one_in_backoff_too_with_what_it_left_behind(self, store: Store, clock: ManualClock) -> None:
        await add(store, keyed("a", expires_after_ms=100))
        await finish(store, await claim(store), RAISED)
        await clock.advance(100)
        assert (await add(store, keyed("b"))).created
        gone = await stored(store, "a")
        assert (gone.outcome, gone.attempts_made, len(gone.history)) == ("expired", 1, 1)

    async def test_one_that_runs_keeps_it(self, store: Store, clock: ManualClock) -> None:
        await add(store, keyed("a", expires_after_ms=100))
        await claim(store)
        await clock.advance(100)
        assert await add(store, keyed("b")) == Enqueued("a", created=False)

    async def test_a_window_is_kept_and_a_schedules_run_is_left_to_a_worker(
        self, store: Store, clock: ManualClock
    ) -> None:
        await add(store, keyed("a", WINDOW, expires_after_ms=100))
        await add(store, job("s", unique_key="schedule x", schedule="x", expires_after_ms=100))
        await clock.advance(100)
        assert await add(store, keyed("b")) == Enqueued("a", created=False)
        assert await add(store, job("t", unique_key="schedule x")) == Enqueued("s", created=False)

    async def test_does_not_keep_a_failed_one_from_being_retried(self, store: Store, clock: ManualClock) -> None:
        await add(store, keyed("a"))
        await finish(store, await claim(store), FAILED)
        await add(store, keyed("b", expires_after_ms=100))
        assert await store.jobs.retry(["a"]) == [False]
        await clock.advance(100)
        assert await store.jobs.retry(["a"]) == [True]
        assert await states(store, "a b") == "waiting failed"
        assert await add(store, keyed("c")) == Enqueued("a", created=False)

    async def test_can_be_retried_when_the_key_is_free_again(self, store: Store, clock: ManualClock) -> None:
        await add(store, keyed("a", expires_after_ms=100))
        await clock.advance(100)
        await add(store, keyed("b"))
        await finish(store, await claim(store))
        assert await store.jobs.retry(["a"]) == [True]
        assert ids(await claim(store)) == "a"


@pytest.mark.asyncio
class TestWhoStandsForAFollowUp:
    async def test_the_result_names_the_holder_of_its_key(self, store: Store) -> None:
        await store.jobs.enqueue([job("run"), keyed("holder", queue="other")])
        (record,) = await claim(store)
        made = (job("x", queue="other"), keyed("y", queue="other"), job("z", queue="other"))
        done = ended(record, structs.replace(COMPLETED, result=b'["x","y","z"]', follow_up=made))
        for _ in range(2):
            settled = await store.jobs.settle([done])
            assert (settled.applied, settled.left_out) == ([True], {0: (1,)})
            assert (await stored(store, "run")).result == b'["x","holder","z"]'

    async def test_one_that_was_replaced_stands_for_its_newcomer(self, store: Store) -> None:
        await store.jobs.enqueue([job("run"), keyed("holder", queue="other")])
        (record,) = await claim(store)
        made = (keyed("y", REPLACE, queue="other", payload=b"2"),)
        await store.jobs.settle([ended(record, structs.replace(COMPLETED, result=b'["y"]', follow_up=made))])
        assert ((await stored(store, "run")).result, (await stored(store, "holder")).payload) == (b'["holder"]', b"2")

    async def test_the_key_of_the_run_itself_is_free_by_then(self, store: Store) -> None:
        await store.jobs.enqueue([keyed("run")])
        (record,) = await claim(store)
        done = structs.replace(COMPLETED, result=b'["next"]', follow_up=(keyed("next", delay_ms=1_000),))
        await store.jobs.settle([ended(record, done)])
        assert (await stored(store, "run")).result == b'["next"]'
        assert await state(store, "next") == "delayed"

    async def test_also_of_one_that_was_put_back_in_the_same_step_and_has_expired(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.jobs.enqueue([keyed("late", expires_after_ms=100), job("run")])
        late, run = await claim(store, 2)
        await clock.advance(100)
        done = structs.replace(COMPLETED, result=b'["next"]', follow_up=(keyed("next"),))
        assert (await store.jobs.settle([ended(late, RAISED), ended(run, done)])).applied == [True, True]
        assert (await stored(store, "run")).result == b'["next"]'
        assert await states(store, "late next") == "failed waiting"
