"""Contract of `JobStore.claim` and `JobStore.renew`."""

from __future__ import annotations

import asyncio

import pytest

from workfleet.model.jobs import Claim, JobState
from workfleet.ports.jobs import TakeOver
from workfleet.ports.stores import Store

from .harness import ManualClock, claim, ended, ids, job, jobs, request, stored


@pytest.mark.asyncio
class TestClaim:
    async def test_a_claimed_job_is_active_with_worker_token_lease_and_start(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.jobs.enqueue([job("a")])
        await clock.advance(50)
        now = await store.now_ms()
        (record,) = await store.jobs.claim(request(worker="w7", token="t7", lease_ms=300))
        assert record == await stored(store, "a")
        assert (record.state, record.worker, record.token) == (JobState.ACTIVE, "w7", "t7")
        assert (record.started_ms, record.lease_until_ms) == (now, now + 300)
        assert (record.attempts_made, record.crashes, record.deferrals, record.history) == (0, 0, 0, ())
        assert record.claim == Claim("a", "t7", "q")

    async def test_no_job_is_given_twice(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a"))
        assert ids(await claim(store)) == "a"
        assert await claim(store) == []

    async def test_up_to_the_limit_of_each_wanted_queue_in_their_order(self, store: Store) -> None:
        for queue in ("one", "two", "three"):
            await store.jobs.enqueue(jobs(f"{queue}-1 {queue}-2 {queue}-3", queue=queue))
        first = await store.jobs.claim(request(two=2, one=1, nowhere=5))
        assert ids(first) == "two-1 two-2 one-1"
        assert ids(await store.jobs.claim(request(one=0, two=5))) == "two-3"

    async def test_first_in_first_out(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue(jobs("z y"))
        await store.jobs.enqueue(jobs("a b"))
        await clock.advance(1)
        await store.jobs.enqueue(jobs("c"))
        assert ids(await claim(store, 3)) == "z y a"
        assert ids(await claim(store, 3)) == "b c"

    async def test_waiting_before_prioritized_lower_numbers_sooner(self, store: Store) -> None:
        await store.jobs.enqueue([job("p9", priority=9), job("p2", priority=2), job("p0"), job("p2-too", priority=2)])
        assert ids(await claim(store, 10)) == "p0 p2 p2-too p9"

    async def test_the_order_holds_from_claim_to_claim(self, store: Store) -> None:
        for number in range(4):
            await store.jobs.enqueue([job(f"p{number % 2 + 1}-{number}", priority=number % 2 + 1)])
        given = [ids(await claim(store)) for _ in range(4)]
        assert given == ["p1-0", "p1-2", "p2-1", "p2-3"]

    async def test_lifo_before_all_last_in_first_out(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue([job("fifo"), job("l1", lifo=True), job("l2", lifo=True)])
        await clock.advance(1)
        await store.jobs.enqueue([job("l3", lifo=True)])
        assert ids(await claim(store, 2)) == "l3 l2"
        assert ids(await claim(store, 5)) == "l1 fifo"

    async def test_with_a_priority_lifo_has_no_meaning(self, store: Store) -> None:
        await store.jobs.enqueue([job("p1", priority=5, lifo=True), job("p2", priority=5, lifo=True)])
        assert ids(await claim(store, 2)) == "p1 p2"

    async def test_a_delayed_job_becomes_ready_at_its_very_instant(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue([job("a", delay_ms=1_000)])
        await clock.advance(999)
        assert await claim(store) == []
        await clock.advance(1)
        assert ids(await claim(store)) == "a"

    async def test_a_delayed_jobs_place_is_by_when_it_was_due(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue([job("later", delay_ms=300), job("sooner", delay_ms=100)])
        await store.jobs.enqueue([job("urgent", delay_ms=200, priority=1), job("top", delay_ms=300, lifo=True)])
        await clock.advance(200)
        await store.jobs.enqueue([job("new")])
        await clock.advance(100)
        assert ids(await claim(store, 10)) == "top sooner new later urgent"

    async def test_only_the_wanted_queues_are_touched(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue([job("a", queue="other", delay_ms=10), job("b", queue="other")])
        await clock.advance(10)
        assert await claim(store, 5) == []
        assert (await stored(store, "a")).state is JobState.DELAYED

    async def test_a_repeated_token_gives_what_it_was_given_and_still_holds(self, store: Store) -> None:
        await store.jobs.enqueue([job("a"), job("b", queue="r"), job("c"), job("d")])
        asked = request(token="t1", q=2, r=2)
        first = await store.jobs.claim(asked)
        assert ids(first) == "a c b"
        assert await store.jobs.claim(asked) == first
        await store.jobs.settle([ended(first[0])])
        assert ids(await store.jobs.claim(asked)) == "c b"

    async def test_concurrent_claimers_never_share_a_job(self, store: Store) -> None:
        await store.jobs.enqueue(jobs(" ".join(f"j{n:03}" for n in range(200))))
        given = await asyncio.gather(*(claim(store, 7, worker=f"w{n}") for n in range(40)))
        claimed = [record.id for records in given for record in records]
        assert len(claimed) == len(set(claimed)) == 200
        assert {len(records) for records in given[:28]} == {7}


@pytest.mark.asyncio
class TestRenew:
    async def test_extends_the_lease_from_now(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue(jobs("a b"))
        records = await claim(store, 2, lease_ms=1_000)
        await clock.advance(900)
        assert await store.jobs.renew([record.claim for record in records], 1_000) == [True, True]
        assert (await stored(store, "b")).lease_until_ms == await store.now_ms() + 1_000
        await clock.advance(999)
        assert await store.jobs.take_over(TakeOver("reaper", "t", 1_000)) == []

    async def test_an_expired_lease_that_nobody_took_over_renews(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue(jobs("a"))
        (record,) = await claim(store, lease_ms=100)
        await clock.advance(5_000)
        assert await store.jobs.renew([record.claim], 1_000) == [True]
        assert await store.jobs.take_over(TakeOver("reaper", "t", 1_000)) == []

    async def test_a_stale_claim_does_not(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue(jobs("taken settled live"))
        taken, settled, live = await claim(store, 3, lease_ms=1_000)
        await store.jobs.settle([ended(settled)])
        await store.jobs.renew([live.claim], 9_000)
        await clock.advance(1_000)
        (other,) = await store.jobs.take_over(TakeOver("reaper", "t2", 5_000))
        claims = [
            taken.claim,
            settled.claim,
            live.claim,
            Claim("nobody", "t", "q"),
            Claim("live", "forged", "q"),
            other.claim,
        ]
        assert await store.jobs.renew(claims, 7_000) == [False, False, True, False, False, True]
        assert await store.jobs.renew([], 7_000) == []
