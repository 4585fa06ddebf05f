"""Contract of `UniqueRule.exclusive`: of the jobs of a key, one runs and one waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from workfleet.model.jobs import Enqueued, JobRecord, JobState, UniqueRule
from workfleet.model.outcome import GIVE_BACK, Ended
from workfleet.ports.jobs import JobQuery, TakeOver
from workfleet.ports.stores import Store

from .harness import (
    CRASHED,
    FAILED,
    RAISED,
    ManualClock,
    claim,
    ended,
    finish,
    ids,
    job,
    request,
    state,
    states,
    stored,
)

ONE_RUNS_ONE_WAITS = UniqueRule(until="started", exclusive=True)
Step = Callable[[Store, ManualClock, JobRecord], Awaitable[object]]


def alone(job_id: str, **said: object) -> JobRecord:
    """A job with the exclusive key "k"."""
    return job(job_id, **{"unique_key": "k", "unique": ONE_RUNS_ONE_WAITS, **said})


async def one_runs_one_waits(store: Store, **said: object) -> JobRecord:
    """`a` runs, and `b` is parked behind it."""
    await store.jobs.enqueue([alone("a")])
    (record,) = await claim(store)
    assert await store.jobs.enqueue([alone("b", **said)]) == [Enqueued("b", created=True)]
    assert await states(store, "a b") == "active parked"
    return record


async def _complete(store: Store, _: ManualClock, record: JobRecord) -> None:
    await finish(store, [record])


async def _fail(store: Store, _: ManualClock, record: JobRecord) -> None:
    await finish(store, [record], FAILED)


async def _cancel_in_backoff(store: Store, _: ManualClock, record: JobRecord) -> None:
    await finish(store, [record], RAISED)
    assert await state(store, "b") == "parked"
    assert await store.jobs.cancel(["a"]) == ["cancelled"]


async def _delete_in_backoff(store: Store, _: ManualClock, record: JobRecord) -> None:
    await finish(store, [record], RAISED)
    assert await store.jobs.delete(["a"]) == [True]


async def _purge_in_backoff(store: Store, _: ManualClock, record: JobRecord) -> None:
    await finish(store, [record], GIVE_BACK)
    assert await store.jobs.purge("q", [JobState.WAITING]) == 1


async def _die_and_be_settled_by_another(store: Store, clock: ManualClock, record: JobRecord) -> None:
    await clock.advance(30_000)
    (taken,) = await store.jobs.take_over(TakeOver("reaper", "t2", 1_000))
    assert await state(store, "b") == "parked"
    await finish(store, [taken], FAILED)


@pytest.mark.asyncio
class TestExclusive:
    async def test_one_runs_and_one_waits(self, store: Store) -> None:
        record = await one_runs_one_waits(store)
        assert await store.jobs.enqueue([alone("c")]) == [Enqueued("b", created=False)]
        assert await claim(store, 9) == []
        await finish(store, [record])
        assert await state(store, "b") == "waiting"
        assert ids(await claim(store, 9)) == "b"
        assert await store.jobs.enqueue([alone("d")]) == [Enqueued("d", created=True)]
        assert await state(store, "d") == "parked"

    @pytest.mark.parametrize(
        "step",
        [_complete, _fail, _cancel_in_backoff, _delete_in_backoff, _purge_in_backoff, _die_and_be_settled_by_another],
    )
    async def test_whatever_ends_the_first_lets_the_second_start(
        self, store: Store, clock: ManualClock, step: Step
    ) -> None:
        record = await one_runs_one_waits(store)
        await step(store, clock, record)
        assert await state(store, "b") == "waiting"
        assert ids(await claim(store, 9)) == "b"

    @pytest.mark.parametrize(
        "how", [RAISED, CRASHED, GIVE_BACK, Ended(kind="snoozed", after_ms=10)], ids=lambda how: how.kind
    )
    async def test_it_waits_through_every_run_of_the_first(self, store: Store, clock: ManualClock, how: Ended) -> None:
        record = await one_runs_one_waits(store)
        await finish(store, [record], how)
        assert await state(store, "b") == "parked"
        await clock.advance(5_000)
        again = await claim(store, 9)
        assert ids(again) == "a"
        assert await state(store, "b") == "parked"
        await finish(store, again)
        assert ids(await claim(store, 9)) == "b"

    async def test_the_second_starts_in_the_same_step(self, store: Store) -> None:
        record = await one_runs_one_waits(store)
        settled = await store.jobs.settle([ended(record)], request(5))
        assert ids(settled.claimed) == "b"

    async def test_the_end_of_the_first_wakes_the_queue_of_the_second(self, store: Store) -> None:
        record = await one_runs_one_waits(store, queue="r")
        await store.jobs.claim(request(r=1))
        waiting = asyncio.create_task(store.jobs.wait(["r"], 60_000))
        await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, no time
        await finish(store, [record])
        assert await asyncio.wait_for(waiting, 10)

    async def test_parked_and_delayed_waits_for_both(self, store: Store, clock: ManualClock) -> None:
        record = await one_runs_one_waits(store, delay_ms=100)
        assert await store.jobs.next_due_ms(["q"]) is None
        await finish(store, [record])
        assert await state(store, "b") == "delayed"
        assert await store.jobs.next_due_ms(["q"]) == await store.now_ms() + 100
        await clock.advance(100)
        assert ids(await claim(store)) == "b"

    async def test_it_keeps_the_place_that_its_due_time_gives(self, store: Store, clock: ManualClock) -> None:
        record = await one_runs_one_waits(store)
        due_ms = (await stored(store, "b")).due_ms
        await clock.advance(7)
        await store.jobs.enqueue([job("later")])
        await clock.advance(7)
        await finish(store, [record])
        assert (await stored(store, "b")).due_ms == due_ms
        assert ids(await claim(store, 2)) == "b later"

    async def test_the_parked_one_can_be_replaced_cancelled_deleted_not_promoted(self, store: Store) -> None:
        await one_runs_one_waits(store)
        newer = alone("c", unique=UniqueRule(until="started", exclusive=True, on_conflict="replace"), payload=b"3")
        assert await store.jobs.enqueue([newer]) == [Enqueued("b", created=False, replaced=True)]
        assert ((await stored(store, "b")).payload, await state(store, "b")) == (b"3", "parked")
        assert await store.jobs.promote(["b"]) == [False]
        assert await store.jobs.cancel(["b"]) == ["cancelled"]
        assert await state(store, "b") == "failed"
        assert await store.jobs.enqueue([alone("d")]) == [Enqueued("d", created=True)]
        assert await state(store, "d") == "parked"
        assert await store.jobs.delete(["d"]) == [True]
        assert await store.jobs.enqueue([alone("e")]) == [Enqueued("e", created=True)]
        assert await state(store, "e") == "parked"

    async def test_a_retried_one_waits_for_who_runs(self, store: Store) -> None:
        record = await one_runs_one_waits(store)
        await finish(store, [record], FAILED)
        assert await store.jobs.retry(["a"]) == [False]
        (second,) = await claim(store)
        assert await store.jobs.retry(["a"]) == [True]
        assert await states(store, "a b") == "parked active"
        await finish(store, [second])
        assert ids(await claim(store)) == "a"

    async def test_it_waits_for_all_of_its_key_that_were_claimed(self, store: Store) -> None:
        for name in ("a", "b"):
            await store.jobs.enqueue([alone(name, unique=UniqueRule(until="started"))])
            assert ids(await claim(store)) == name
        await store.jobs.enqueue([alone("c")])
        first, second = await store.jobs.find(JobQuery(states=(JobState.ACTIVE,)))
        await finish(store, [first])
        assert await state(store, "c") == "parked"
        await finish(store, [second])
        assert await state(store, "c") == "waiting"

    async def test_keys_that_differ_do_not_wait_for_each_other(self, store: Store) -> None:
        await one_runs_one_waits(store)
        await store.jobs.enqueue([alone("c", unique_key="other"), job("d")])
        assert ids(await claim(store, 9)) == "c d"

    async def test_many_at_once_run_one_after_the_other(self, store: Store) -> None:
        ran: list[str] = []

        async def producer(number: int) -> None:
            await store.jobs.enqueue([alone(f"j{number}")])
            for record in await claim(store, 5, worker=f"w{number}"):
                running = await store.jobs.find(JobQuery(states=(JobState.ACTIVE,)))
                assert ids(running) == record.id
                ran.append(record.id)
                await finish(store, [record])

        await asyncio.gather(*(producer(number) for number in range(25)))
        while last := await claim(store, 5):
            ran += [record.id for record in last]
            await finish(store, last)
        done = await store.jobs.find(JobQuery(states=(JobState.COMPLETED,)))
        assert sorted(ran) == sorted(record.id for record in done)
        assert len(await store.jobs.find(JobQuery())) == len(done)
