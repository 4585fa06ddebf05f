"""Contract of `UniqueRule.on_conflict`: what a newcomer does to the job that holds its key."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from workfleet.model.jobs import Enqueued, Keep, KeepRule, RunOverrides, UniqueRule
from workfleet.ports.jobs import JobQuery
from workfleet.ports.stores import Store

from .harness import RAISED, ManualClock, claim, finish, ids, job, state, stored
from .unique import DEBOUNCE, REPLACE, STARTED, WINDOW, add, keyed


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

    async def test_it_is_found_and_kept_as_the_newcomer_says(self, store: Store, clock: ManualClock) -> None:
        await add(store, keyed("a", tags=("old",), keep=Keep(completed=KeepRule(age_ms=100))))
        await add(store, keyed("b", REPLACE, tags=("new",), keep=Keep(completed=KeepRule(age_ms=500))))
        assert ids(await store.jobs.find(JobQuery(tag="old"))) == ""
        assert ids(await store.jobs.find(JobQuery(tag="new"))) == "a"
        await finish(store, await claim(store))
        await clock.advance(500)
        assert await store.jobs.prune([]) == 0
        await clock.advance(1)
        assert await store.jobs.prune([]) == 1

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

    @pytest.mark.parametrize("how", [REPLACE, DEBOUNCE], ids=str)
    @pytest.mark.parametrize("said", [{}, {"queue": "other"}, {"unique_key": "another"}], ids=str)
    async def test_a_job_that_has_the_id_of_a_deleted_one_is_kept(
        self, store: Store, how: UniqueRule, said: dict[str, Any]
    ) -> None:
        await add(store, keyed("a", WINDOW))
        assert await store.jobs.delete(["a"]) == [True]
        await add(store, job("a", payload=b"1", **said))
        before = await stored(store, "a")
        assert await add(store, keyed("b", how, payload=b"2", delay_ms=50)) == Enqueued("a", created=False)
        assert await stored(store, "a") == before

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
