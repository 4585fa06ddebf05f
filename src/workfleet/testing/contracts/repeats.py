"""Contract of repeats and stale claims: a call that is sent again after a lost reply does nothing twice, and who lost
its claim can do nothing at all. What each call answers then is tested beside the call itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from msgspec import structs

from workfleet.model.jobs import JobRecord, JobState, UniqueRule
from workfleet.model.limits import GroupLimits, QueueLimits, Rate
from workfleet.model.outcome import GIVE_BACK
from workfleet.ports.jobs import JobQuery, PruneRule, TakeOver
from workfleet.ports.stores import Store

from .harness import (
    COMPLETED,
    CRASHED,
    FAILED,
    RAISED,
    ManualClock,
    Opener,
    claim,
    ended,
    finish,
    ids,
    job,
    jobs,
    request,
    stored,
)

Call = Callable[[], Awaitable[object]]


async def picture(store: Store) -> object:
    """Everything that can be seen."""
    records = await store.jobs.find(JobQuery(limit=10_000))
    logs = [await store.jobs.logs(record.id) for record in records]
    return records, logs, await store.jobs.counts(), await store.queues.all(), await store.schedules.all()


async def one_claim_each(live: list[JobRecord], stores: list[Store]) -> None:
    """Each of these jobs is under the claim with which it was handed out and no other, whichever connection asks."""
    claims = [record.claim for record in live]
    for each in stores:
        assert [await stored(each, record.id) for record in live] == live
    for each in stores:
        assert await each.jobs.renew(claims, 60_000) == [True] * len(live)
        swapped = [
            structs.replace(one, token=other.token) for one, other in zip(claims, claims[1:] + claims[:1], strict=True)
        ]
        assert await each.jobs.renew(swapped, 60_000) == [False] * len(live)


async def same_again(store: Store, call: Call) -> None:
    """A repeat gives the first answer and changes nothing."""
    first = await call()
    before = await picture(store)
    assert await call() == first
    assert await picture(store) == before


@pytest.mark.asyncio
class TestRepeats:
    async def test_calls_that_give_the_first_answer_again(self, store: Store, clock: ManualClock) -> None:
        rule = UniqueRule(on_conflict="debounce")
        added = [*jobs("a b c"), job("u", unique_key="k"), job("v", unique_key="k", unique=rule, delay_ms=50)]
        await same_again(store, lambda: store.jobs.enqueue(added, call="c1"))
        asked = request(3, token="t1", lease_ms=100)
        await same_again(store, lambda: store.jobs.claim(asked))
        a, b, c = await store.jobs.claim(asked)
        await same_again(store, lambda: store.jobs.report(a.claim, progress=b"1", lines=["x"], call="r1"))
        done = ended(a, structs.replace(COMPLETED, follow_up=(job("child"),)))
        then = request(1, token="t2", lease_ms=100)
        await same_again(store, lambda: store.jobs.settle([done, ended(b, RAISED)], then))
        await clock.advance(100)
        await same_again(store, lambda: store.jobs.take_over(TakeOver("reaper", "t3", 700)))
        await same_again(store, lambda: store.jobs.cancel([c.id, "a", "nobody"]))
        await same_again(store, lambda: store.jobs.cancels([c.claim]))

    async def test_calls_that_answer_from_what_they_find(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue([*jobs("failed active"), job("late", delay_ms=9), job("gone"), job("waiting")])
        failed, _ = await claim(store, 2)
        await finish(store, [failed], FAILED)
        calls: list[tuple[Call, list[object]]] = [
            (lambda: store.jobs.retry(["failed", "active"]), [[True, False], [False, False]]),
            (lambda: store.jobs.promote(["late", "active"]), [[True, False], [False, False]]),
            (lambda: store.jobs.delete(["gone", "active"]), [[True, False], [False, False]]),
            (lambda: store.jobs.cancel(["waiting", "active"]), [["cancelled", "asked"], ["finished", "asked"]]),
            (lambda: store.jobs.purge("q", [JobState.FAILED]), [1, 0]),
            (lambda: store.jobs.prune([PruneRule(JobState.FAILED, count=0)]), [0, 0]),
            (lambda: store.queues.set_paused("q", paused=True), [True, False]),
        ]
        for call, answers in calls:
            assert await call() == answers[0]
            before = await picture(store)
            assert await call() == answers[1]
            assert await picture(store) == before

    async def test_a_long_runs_settle_is_known_though_a_clean_up_came_between(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.jobs.enqueue(jobs("done tried"))
        done, tried = await claim(store, 2, lease_ms=7_200_000)
        await clock.advance(3_600_000)
        settlements = [ended(done), ended(tried, RAISED)]
        assert (await store.jobs.settle(settlements)).applied == [True, True]
        await store.jobs.prune([])
        assert (await store.jobs.settle(settlements)).applied == [True, True]

    async def test_a_repeat_uses_up_no_turn_no_rate_and_no_slot(self, store: Store) -> None:
        limits = QueueLimits(concurrency=4, rate=Rate(4, 1_000), group=GroupLimits(rate=Rate(2, 1_000)))
        await store.queues.set_limits({"q": limits})
        await store.jobs.enqueue([job(f"{group}{n}", group=group) for group in "abc" for n in range(3)])
        asked = request(2, token="t")
        for _ in range(5):
            assert ids(await store.jobs.claim(asked)) == "a0 b0"
        assert ids(await claim(store, 9)) == "c0 a1"

    async def test_two_that_were_sent_at_once_are_one(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a b c d"))
        asked = request(2, token="t")
        given = await asyncio.gather(*(store.jobs.claim(asked) for _ in range(5)))
        assert [ids(records) for records in given] == ["a b"] * 5
        done = ended(given[0][0], structs.replace(COMPLETED, follow_up=(job("child"),)))
        settled = await asyncio.gather(*(store.jobs.settle([done]) for _ in range(5)))
        assert [(answer.applied, answer.left_out) for answer in settled] == [([True], {})] * 5
        assert len(await store.jobs.find(JobQuery(name="work"))) == 5

    async def test_a_claim_whose_jobs_were_taken_over_is_repeated_beside_all_others(
        self, store: Store, opener: Opener, clock: ManualClock
    ) -> None:
        other = await opener("shop", clock)
        await store.jobs.enqueue(jobs("a z b c d e f"))
        (a,), (z,) = await claim(other, worker="w2", lease_ms=60_000), await claim(store, lease_ms=60_000)
        asked = request(token="t1", lease_ms=10_000)
        (lost,) = await store.jobs.claim(asked)
        (c,) = await claim(store, lease_ms=60_000)
        await clock.advance(10_000)
        (b,) = await other.jobs.take_over(TakeOver("w2", "t2", 60_000))
        assert (lost.id, b.id) == ("b", "b")
        (d,) = await store.jobs.claim(asked)
        (e,), (f,) = await claim(store, lease_ms=60_000), await claim(other, worker="w2", lease_ms=60_000)
        live = [a, b, c, d, e, f, z]
        assert ids(live) == "a b c d e f z"
        await one_claim_each(live, [store, other])
        assert await store.jobs.renew([lost.claim], 60_000) == [False]
        assert (await other.jobs.settle([ended(record) for record in (lost, *live)])).applied == [False] + [True] * 7
        if other is not store:
            await other.close()

    async def test_a_take_over_whose_jobs_were_taken_over_is_repeated_beside_all_others(
        self, store: Store, opener: Opener, clock: ManualClock
    ) -> None:
        other = await opener("shop", clock)
        await store.jobs.enqueue(jobs("a b z c d e"))
        await claim(other, worker="dead", lease_ms=10_000)
        await claim(other, worker="dead", lease_ms=30_000)
        (z,) = await claim(store, lease_ms=60_000)
        await clock.advance(10_000)
        asked = TakeOver("w1", "t1", 10_000)
        assert ids(await store.jobs.take_over(asked)) == "a"
        (c,) = await claim(store, lease_ms=60_000)
        await clock.advance(10_000)
        (a,) = await other.jobs.take_over(TakeOver("w2", "t2", 60_000))
        await clock.advance(10_000)
        (b,) = await store.jobs.take_over(asked)
        (d,), (e,) = await claim(store, lease_ms=60_000), await claim(other, worker="w2", lease_ms=60_000)
        live = [a, b, c, d, e, z]
        assert ids(live) == "a b c d e z"
        await one_claim_each(live, [store, other])
        await finish(other, live)
        if other is not store:
            await other.close()

    async def test_a_claim_that_another_connection_repeats_is_the_same_claim(
        self, store: Store, opener: Opener, clock: ManualClock
    ) -> None:
        other = await opener("shop", clock)
        await store.jobs.enqueue(jobs("z a b c d"))
        (z,) = await claim(store, lease_ms=60_000)
        asked = request(token="t1", lease_ms=10_000)
        assert await store.jobs.claim(asked) == await other.jobs.claim(asked)
        await clock.advance(10_000)
        (a,) = await store.jobs.take_over(TakeOver("w2", "t2", 60_000))
        (b,) = await other.jobs.claim(asked)
        (c,), (d,) = await claim(store, lease_ms=60_000), await claim(other, worker="w2", lease_ms=60_000)
        live = [a, b, c, d, z]
        assert ids(live) == "a b c d z"
        await one_claim_each(live, [store, other])
        await finish(store, live)
        if other is not store:
            await other.close()

    async def test_a_claim_that_was_forgotten_is_a_new_one_for_every_connection(
        self, store: Store, opener: Opener, clock: ManualClock
    ) -> None:
        other = await opener("shop", clock)
        await store.jobs.enqueue(jobs("a b c"))
        asked = request(token="t1", lease_ms=10_000)
        await store.jobs.claim(asked)
        await clock.advance(10_000)
        (a,) = await other.jobs.take_over(TakeOver("w2", "t2", 7_200_000))
        await clock.advance(3_600_000)
        await store.jobs.prune([])
        (b,) = await other.jobs.claim(asked)
        assert await store.jobs.claim(asked) == [b]
        (c,) = await claim(store)
        live = [a, b, c]
        assert ids(live) == "a b c"
        await one_claim_each(live, [store, other])
        await finish(store, live)
        if other is not store:
            await other.close()


@pytest.mark.asyncio
class TestStaleClaims:
    @pytest.mark.parametrize("how", ["taken over", "given back", "claimed again", "finished", "deleted"])
    async def test_can_do_and_see_nothing(self, store: Store, clock: ManualClock, how: str) -> None:
        await store.jobs.enqueue(jobs("a"))
        (record,) = await claim(store, lease_ms=100)
        # Settled by another: by whoever took it over, so that this is no repeat of the stale claim's own settle.
        await clock.advance(100)
        (taken,) = await store.jobs.take_over(TakeOver("reaper", "t2", 5_000))
        if how in ("given back", "claimed again"):
            await finish(store, [taken], GIVE_BACK)
        if how == "claimed again":
            await claim(store, worker="w2")
            await store.jobs.cancel(["a"])
        if how in ("finished", "deleted"):
            await finish(store, [taken], FAILED)
        if how == "deleted":
            await store.jobs.delete(["a"])
        before = await picture(store)
        late = ended(record, structs.replace(COMPLETED, follow_up=(job("child"),)))
        assert (await store.jobs.settle([late])).applied == [False]
        assert (await store.jobs.settle([ended(record, CRASHED), ended(record, RAISED)])).applied == [False, False]
        assert await store.jobs.renew([record.claim], 60_000) == [False]
        assert await store.jobs.report(record.claim, progress=b"1", lines=["late"], call="c") is False
        assert await store.jobs.cancels([record.claim]) == [False]
        assert await picture(store) == before

    async def test_the_lease_itself_makes_nothing_stale(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue(jobs("a"))
        (record,) = await claim(store, lease_ms=100)
        await store.jobs.cancel(["a"])
        await clock.advance(100_000)
        assert await store.jobs.cancels([record.claim]) == [True]
        assert await store.jobs.report(record.claim, lines=["late but mine"])
        assert await store.jobs.renew([record.claim], 100) == [True]
        assert await store.jobs.take_over(TakeOver("reaper", "t2", 5_000)) == []
        await finish(store, [record])
