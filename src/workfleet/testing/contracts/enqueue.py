"""Contract of `JobStore.enqueue`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from workfleet.model.jobs import MAX_PRIORITY, Enqueued, JobRecord, JobState, Keep, KeepRule, RunOverrides, UniqueRule
from workfleet.model.policy import Backoff
from workfleet.ports.jobs import JobQuery
from workfleet.ports.stores import Store

from .harness import ManualClock, claim, ended, ids, job, jobs, stored


@pytest.mark.asyncio
class TestEnqueue:
    async def test_adds_many_in_order(self, store: Store) -> None:
        answers = await store.jobs.enqueue(jobs("a b c"))
        assert answers == [Enqueued("a", created=True), Enqueued("b", created=True), Enqueued("c", created=True)]
        assert ids(await claim(store, 10)) == "a b c"

    async def test_adds_none(self, store: Store) -> None:
        assert await store.jobs.enqueue([]) == []

    async def test_sets_created_and_due_by_the_stores_time(self, store: Store, clock: ManualClock) -> None:
        now = await store.now_ms()
        await store.jobs.enqueue([job("a", delay_ms=500), job("b", due_ms=now + 700), job("c", due_ms=now - 9)])
        await store.jobs.enqueue([job("d", delay_ms=500, due_ms=now + 700), job("e", priority=7), job("f")])
        records = [await stored(store, job_id) for job_id in "abcdef"]
        assert [record.created_ms for record in records] == [now] * 6
        assert [record.due_ms - now for record in records] == [500, 700, 0, 700, 0, 0]
        assert [record.state.value for record in records] == [
            "delayed", "delayed", "waiting", "delayed", "prioritized", "waiting",
        ]  # fmt: skip

    async def test_keeps_everything_that_was_said(self, store: Store) -> None:
        run = RunOverrides(attempts=7, backoff=Backoff("exponential", 1, 9, "none"), timeout_ms=None)
        said: dict[str, Any] = {
            "queue": "päth/ö",
            "name": "日本 name\twith 'quotes\"",
            "payload": b'{"text":"\\u0000 \\ud800","n":1e400,"deep":[[[]]]}',
            "run": run,
            "priority": MAX_PRIORITY,
            "lifo": True,
            "delay_ms": 1_000,
            "unique_key": "k",
            "unique": UniqueRule(until="started", window_ms=9, on_conflict="debounce"),
            "group": "g\n'ö",
            "expires_after_ms": 5,
            "keep": Keep(completed=KeepRule(age_ms=1, count=2), failed=KeepRule()),
            "trace": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "schedule": "nightly",
            "slot_ms": 253_402_300_799_999,
            "housekeeping": True,
            "tags": ("x", "y z"),
            "metadata": {"a": "1", "ü": ""},
        }
        await store.jobs.enqueue([JobRecord(id="a", **said)])
        record = await stored(store, "a")
        assert {name: getattr(record, name) for name in said} == said

    async def test_tells_unset_from_off(self, store: Store) -> None:
        await store.jobs.enqueue([job("unset"), job("off", run=RunOverrides(backoff=None, timeout_ms=None))])
        assert (await stored(store, "unset")).run == RunOverrides()
        assert (await stored(store, "off")).run == RunOverrides(backoff=None, timeout_ms=None)

    async def test_keeps_a_large_payload(self, store: Store) -> None:
        payload = b'"' + b"x" * 1_048_576 + b'"'
        await store.jobs.enqueue([job("a", payload=payload)])
        assert (await claim(store))[0].payload == payload

    async def test_takes_nothing_but_what_is_said_at_enqueue(self, store: Store) -> None:
        past = job(
            "a",
            state=JobState.COMPLETED,
            attempts_made=2,
            crashes=1,
            deferrals=1,
            suspicions=1,
            parked=True,
            cancel_asked=True,
            started_ms=1,
            token="t",
            worker="w",
            result=b"1",
            outcome="completed",
        )
        await store.jobs.enqueue([past])
        record = await stored(store, "a")
        assert (record.state, record.attempts_made, record.token, record.worker) == (JobState.WAITING, 0, None, None)
        assert (record.result, record.outcome, record.history) == (None, None, ())
        assert (record.crashes, record.deferrals, record.suspicions, record.started_ms) == (0, 0, 0, None)
        assert (record.parked, record.cancel_asked) == (False, False)

    async def test_what_the_caller_changes_afterwards_is_not_stored(self, store: Store) -> None:
        record = job("a", metadata={"k": "1"})
        await store.jobs.enqueue([record])
        record.queue, record.metadata["k"] = "other", "2"
        (await stored(store, "a")).metadata["k"] = "3"
        kept = await stored(store, "a")
        assert (kept.queue, kept.metadata) == ("q", {"k": "1"})

    async def test_an_id_that_exists_is_left_alone(self, store: Store) -> None:
        await store.jobs.enqueue([job("a", payload=b"1")])
        assert await store.jobs.enqueue([job("b"), job("a", payload=b"2", queue="other")]) == [
            Enqueued("b", created=True),
            Enqueued("a", created=False),
        ]
        assert (await stored(store, "a")).payload == b"1"

    async def test_an_id_twice_in_a_call_is_one_job(self, store: Store) -> None:
        twice = [job("a", payload=b"1"), job("a", payload=b"2")]
        first = [Enqueued("a", created=True), Enqueued("a", created=False)]
        assert await store.jobs.enqueue(twice, call="c1") == first
        assert await store.jobs.enqueue(twice, call="c1") == first
        assert (await stored(store, "a")).payload == b"1"

    async def test_a_repeat_of_a_call_gives_the_first_answer(self, store: Store) -> None:
        await store.jobs.enqueue([job("old")])
        first = await store.jobs.enqueue(jobs("old a b"), call="c1")
        assert [answer.created for answer in first] == [False, True, True]
        assert await store.jobs.enqueue(jobs("old a b"), call="c1") == first
        assert ids(await claim(store, 10)) == "old a b"

    async def test_another_call_is_no_repeat(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a"), call="c1")
        await store.jobs.enqueue(jobs("b"))
        assert await store.jobs.enqueue(jobs("a"), call="c2") == [Enqueued("a", created=False)]
        assert await store.jobs.enqueue(jobs("b")) == [Enqueued("b", created=False)]


@pytest.mark.asyncio
class TestUniqueKeys:
    async def test_an_unfinished_job_holds_its_key(self, store: Store) -> None:
        await store.jobs.enqueue([job("a", unique_key="k")])
        assert await store.jobs.enqueue([job("b", unique_key="k", queue="elsewhere")]) == [Enqueued("a", created=False)]
        assert await store.jobs.get(["b"]) == [None]
        (active,) = await claim(store)
        assert await store.jobs.enqueue([job("c", unique_key="k")]) == [Enqueued("a", created=False)]
        await store.jobs.settle([ended(active)])
        assert await store.jobs.enqueue([job("d", unique_key="k")]) == [Enqueued("d", created=True)]
        assert await store.jobs.enqueue([job("e", unique_key="k")]) == [Enqueued("d", created=False)]

    async def test_keys_that_differ_and_jobs_without_one_do_not_meet(self, store: Store) -> None:
        answers = await store.jobs.enqueue([job("a", unique_key="k"), job("b", unique_key="K"), job("c"), job("d")])
        assert all(answer.created for answer in answers)

    async def test_a_key_twice_in_a_call_is_one_job(self, store: Store) -> None:
        twice = [job("a", unique_key="k"), job("b", unique_key="k")]
        first = [Enqueued("a", created=True), Enqueued("a", created=False)]
        assert await store.jobs.enqueue(twice, call="c1") == first
        assert await store.jobs.enqueue(twice, call="c1") == first

    async def test_jobs_of_a_call_are_added_one_after_the_other(self, store: Store) -> None:
        await store.jobs.enqueue([job("a", unique_key="k")])
        answers = await store.jobs.enqueue([job("b", unique_key="k"), job("b", payload=b"2")], call="c1")
        assert answers == [Enqueued("a", created=False), Enqueued("b", created=True)]
        assert (await stored(store, "b")).payload == b"2"

    async def test_fifty_at_once_make_one_job_and_all_get_its_id(self, store: Store) -> None:
        calls = [store.jobs.enqueue([job(f"j{n}", unique_key="k")], call=f"c{n}") for n in range(50)]
        answers = [answer for (answer,) in await asyncio.gather(*calls)]
        assert sum(answer.created for answer in answers) == 1
        assert len({answer.id for answer in answers}) == 1
        assert len(await store.jobs.find(JobQuery())) == 1
