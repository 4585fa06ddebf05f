"""Contract of `UniqueRule`: how long a key is held, and what becomes of newcomers. Without one: see `enqueue`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import structs

from workfleet.model.jobs import Enqueued, JobRecord, JobState, Keep, KeepRule, RunOverrides, UniqueRule
from workfleet.model.outcome import GIVE_BACK, Ended
from workfleet.ports.stores import JobQuery, PruneRule, Store

from .harness import FAILED, RAISED, ManualClock, claim, finish, ids, job, state, states, stored

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
class TestReplace:
    async def test_takes_what_was_said_but_keeps_the_place(self, store: Store, clock: ManualClock) -> None:
        now = await store.now_ms()
        await store.jobs.enqueue(
            [keyed("a", payload=b"1", group="g", tags=("old",), expires_after_ms=9_000), job("later", group="g")]
        )
        await clock.advance(10)
        new = keyed(
            "b",
            UniqueRule(until="started", on_conflict="replace"),
            name="new",
            payload=b"2",
            queue="elsewhere",
            priority=7,
            lifo=True,
            group="h",
            delay_ms=500,
            run=RunOverrides(attempts=9),
            expires_after_ms=40,
            keep=Keep(completed=KeepRule(count=1)),
            trace="00-1-2-01",
            schedule="s",
            slot_ms=5,
            tags=("new",),
            metadata={"m": "1"},
        )
        assert await add(store, new) == Enqueued("a", created=False, replaced=True)
        record = await stored(store, "a")
        assert (record.queue, record.group, record.priority, record.lifo, record.due_ms) == ("q", "g", 0, False, now)
        assert (record.delay_ms, record.created_ms, record.unique, record.state) == (0, now, UniqueRule(), "waiting")
        taken = "name payload run expires_after_ms keep trace schedule slot_ms tags metadata".split()
        assert {field: getattr(record, field) for field in taken} == {field: getattr(new, field) for field in taken}
        assert record.expires_ms == now + 10 + 40
        assert await store.jobs.get(["b"]) == [None]
        assert ids(await claim(store, 2)) == "a later"

    async def test_nothing_that_was_said_before_is_left(self, store: Store) -> None:
        said: dict[str, Any] = {
            "tags": ("t",),
            "metadata": {"m": "1"},
            "expires_after_ms": 5,
            "trace": "x",
            "slot_ms": 4,
            "schedule": "s",
        }
        await add(store, keyed("a", run=RunOverrides(attempts=2), keep=Keep(failed=KeepRule(count=1)), **said))
        before = await stored(store, "a")
        await add(store, keyed("b", REPLACE, payload=b"2"))
        plain = structs.replace(before, payload=b"2", run=RunOverrides(), keep=Keep(), tags=(), metadata={})
        plain = structs.replace(plain, expires_after_ms=None, expires_ms=None, trace=None, slot_ms=None, schedule=None)
        assert await stored(store, "a") == plain

    async def test_a_delayed_one_stays_due_when_it_was(self, store: Store, clock: ManualClock) -> None:
        now = await store.now_ms()
        await add(store, keyed("a", delay_ms=100, payload=b"1"))
        await clock.advance(60)
        await add(store, keyed("b", REPLACE, delay_ms=100, payload=b"2"))
        assert ((await stored(store, "a")).due_ms, (await stored(store, "a")).payload) == (now + 100, b"2")
        await clock.advance(40)
        assert [record.payload for record in await claim(store)] == [b"2"]

    async def test_what_was_ever_claimed_or_is_over_is_kept(self, store: Store, clock: ManualClock) -> None:
        await add(store, keyed("a", payload=b"1"))
        (record,) = await claim(store)
        for rule in (REPLACE, DEBOUNCE):
            assert await add(store, keyed("b", rule, payload=b"2")) == Enqueued("a", created=False)
        await finish(store, [record], RAISED)
        assert await add(store, keyed("b", REPLACE, payload=b"2")) == Enqueued("a", created=False)
        assert (await stored(store, "a")).payload == b"1"
        await store.jobs.cancel(["a"])
        await add(store, keyed("c", WINDOW, payload=b"3"))
        await store.jobs.cancel(["c"])
        assert await add(store, keyed("d", DEBOUNCE)) == Enqueued("c", created=False)
        assert (await stored(store, "c")).payload == b"3"

    async def test_a_repeated_call_replaces_once_even_when_the_job_has_run_since(self, store: Store) -> None:
        await add(store, keyed("a", STARTED, payload=b"1"))
        rule = UniqueRule(on_conflict="replace")
        first = await add(store, keyed("b", rule, payload=b"2"), call="c1")
        assert first == Enqueued("a", created=False, replaced=True)
        assert await add(store, keyed("b", rule, payload=b"2"), call="c1") == first
        (record,) = await claim(store)
        assert await add(store, keyed("b", rule, payload=b"2"), call="c1") == first
        await finish(store, [record])
        assert await add(store, keyed("b", rule, payload=b"2"), call="c1") == first
        assert await add(store, keyed("b", rule, payload=b"2"), call="c2") == Enqueued("a", created=False)
        assert await add(store, job("b"), call="c2") == Enqueued("a", created=False)
        assert await claim(store) == []
        await store.jobs.delete(["a"])
        assert await add(store, keyed("b", rule), call="c1") == Enqueued("b", created=True)

    async def test_the_last_of_a_batch_stays(self, store: Store) -> None:
        batch = [keyed("a", payload=b"1"), keyed("b", REPLACE, payload=b"2"), keyed("c", REPLACE, payload=b"3")]
        first = [Enqueued("a", created=True), *[Enqueued("a", created=False, replaced=True)] * 2]
        for _ in range(2):
            assert await store.jobs.enqueue(batch, call="c1") == first
            assert (await stored(store, "a")).payload == b"3"


@pytest.mark.asyncio
class TestDebounce:
    async def test_starts_the_delay_anew(self, store: Store, clock: ManualClock) -> None:
        now = await store.now_ms()
        await add(store, keyed("a", DEBOUNCE, delay_ms=100, payload=b"1"))
        for number in range(1, 4):
            await clock.advance(90)
            answer = await add(store, keyed(f"n{number}", DEBOUNCE, delay_ms=100, payload=str(number).encode()))
            assert answer == Enqueued("a", created=False, replaced=True)
        record = await stored(store, "a")
        assert (record.due_ms, record.created_ms, record.payload, record.delay_ms) == (now + 370, now, b"3", 100)
        await clock.advance(99)
        assert await claim(store) == []
        await clock.advance(1)
        assert [record.payload for record in await claim(store)] == [b"3"]

    async def test_a_ready_one_is_delayed_again_and_without_a_delay_goes_to_the_end(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.jobs.enqueue([keyed("a"), job("b")])
        await clock.advance(5)
        await add(store, keyed("n", DEBOUNCE, delay_ms=40))
        assert await state(store, "a") == "delayed"
        await add(store, keyed("m", DEBOUNCE))
        assert await state(store, "a") == "waiting"
        assert ids(await claim(store, 2)) == "b a"

    async def test_a_repeated_call_does_not_move_it_again(self, store: Store, clock: ManualClock) -> None:
        now = await store.now_ms()
        await add(store, keyed("a", DEBOUNCE, delay_ms=100))
        await clock.advance(50)
        first = await add(store, keyed("n", DEBOUNCE, delay_ms=100), call="c1")
        await clock.advance(50)
        assert await add(store, keyed("n", DEBOUNCE, delay_ms=100), call="c1") == first
        assert (await stored(store, "a")).due_ms == now + 150


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
