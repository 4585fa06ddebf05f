"""Contract of `JobStore.settle` and `JobStore.report`."""

from __future__ import annotations

import pytest
from msgspec import structs

from workfleet.model.jobs import HISTORY_LIMIT, Claim, Failure, JobState
from workfleet.model.outcome import GIVE_BACK, Ended, Settlement
from workfleet.ports.jobs import JobQuery, TakeOver
from workfleet.ports.stores import Store

from .harness import (
    COMPLETED,
    CRASHED,
    FAILED,
    POLICY,
    RAISED,
    ManualClock,
    claim,
    ended,
    ids,
    job,
    jobs,
    outcome,
    request,
    stored,
)


@pytest.mark.asyncio
class TestSettle:
    async def test_a_completed_job(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue(jobs("a"))
        (record,) = await claim(store)
        await clock.advance(40)
        assert (await store.jobs.settle([ended(record)])).applied == [True]
        done = await stored(store, "a")
        assert (done.state, done.outcome, done.result, done.failure) == (
            JobState.COMPLETED,
            "completed",
            b'"done"',
            None,
        )
        assert (done.attempts_made, done.finished_ms, done.started_ms) == (1, clock.now_ms(), clock.now_ms() - 40)
        assert (done.worker, done.token, done.lease_until_ms) == (None, None, None)
        assert [(attempt.number, attempt.outcome, attempt.worker) for attempt in done.history] == [
            (1, "completed", "w1")
        ]

    async def test_a_failed_job(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a"))
        (record,) = await claim(store)
        await store.jobs.settle([ended(record, FAILED)])
        failed = await stored(store, "a")
        assert (failed.state, failed.outcome, failed.failure) == (JobState.FAILED, "failed", FAILED.failure)
        assert failed.finished_ms == await store.now_ms()
        assert [attempt.failure for attempt in failed.history] == [FAILED.failure]

    async def test_a_retry_waits_its_delay_and_remembers(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue(jobs("a"))
        (record,) = await claim(store)
        await store.jobs.settle([ended(record, RAISED)])
        waiting = await stored(store, "a")
        now = await store.now_ms()
        assert (waiting.state, waiting.due_ms, waiting.attempts_made) == (JobState.DELAYED, now + 5_000, 1)
        assert (waiting.finished_ms, waiting.failure, waiting.outcome) == (None, RAISED.failure, "failed")
        await clock.advance(4_999)
        assert await claim(store) == []
        await clock.advance(1)
        (again,) = await claim(store)
        assert (again.attempts_made, [attempt.number for attempt in again.history]) == (1, [1])
        await store.jobs.settle([ended(again)])
        done = await stored(store, "a")
        assert [attempt.outcome for attempt in done.history] == ["failed", "completed"]
        assert (done.failure, done.attempts_made) == (None, 2)

    async def test_a_delay_of_nothing_makes_it_ready_behind_the_others(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue([*jobs("a b"), job("p", priority=3), job("p2", priority=3)])
        first = await claim(store, 4)
        await store.jobs.enqueue([job("c"), job("p3", priority=3)])
        await clock.advance(1)
        soon = Ended(kind="retry", after_ms=0)
        await store.jobs.settle([ended(first[0], soon), ended(first[2], soon)])
        assert [(await stored(store, name)).state.value for name in ("a", "p")] == ["waiting", "prioritized"]
        assert ids(await claim(store, 9)) == "c a p3 p"

    async def test_what_is_settled_as_ready_returns_to_its_place(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue([job("a"), job("b"), job("c"), job("p1", priority=3), job("p2", priority=3)])
        await clock.advance(5)
        records = {record.id: record for record in await claim(store, 9)}
        await store.jobs.enqueue([job("d"), job("p3", priority=3)])
        await store.jobs.settle([ended(records[name], GIVE_BACK) for name in ("p2", "p1", "b")])
        await store.jobs.settle([ended(records["a"], CRASHED)])
        given_back, crashed = await stored(store, "b"), await stored(store, "a")
        assert (given_back.state, given_back.attempts_made, given_back.history) == (JobState.WAITING, 0, ())
        assert (crashed.state, crashed.crashes, crashed.attempts_made) == (JobState.WAITING, 1, 0)
        assert ids(await claim(store, 9)) == "a b d p1 p2 p3"
        await store.jobs.settle([ended(records["c"])])

    async def test_a_jobs_place_is_by_when_it_became_ready(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue([job("late", delay_ms=100)])
        await clock.advance(50)
        await store.jobs.enqueue(jobs("early"))
        await clock.advance(50)
        records = await claim(store, 2)
        assert ids(records) == "early late"
        await store.jobs.settle([ended(record, GIVE_BACK) for record in records])
        assert ids(await claim(store, 2)) == "early late"

    async def test_a_give_back_leaves_the_history_alone(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a"))
        claimed = await claim(store)
        for how in (GIVE_BACK, Ended(kind="retry", after_ms=0), GIVE_BACK):
            claimed = (await store.jobs.settle([ended(claimed[0], how)], request())).claimed
        assert [attempt.outcome for attempt in claimed[0].history] == ["retry"]

    async def test_lifo_jobs_return_to_theirs(self, store: Store) -> None:
        await store.jobs.enqueue([job("l1", lifo=True), job("l2", lifo=True)])
        (last,) = await claim(store)
        await store.jobs.enqueue([job("l3", lifo=True)])
        await store.jobs.settle([ended(last, GIVE_BACK)])
        assert ids(await claim(store, 9)) == "l3 l2 l1"

    async def test_counts_deferrals_and_snoozes_as_told(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a b"))
        deferred, snoozed = await claim(store, 2)
        unknown = Ended(kind="unknown_job", failure=Failure("unknown_job", "no handler"))
        await store.jobs.settle([ended(deferred, unknown), ended(snoozed, Ended(kind="snoozed", after_ms=9_000))])
        a, b = await stored(store, "a"), await stored(store, "b")
        assert (a.deferrals, a.attempts_made, a.state, a.outcome) == (1, 0, JobState.DELAYED, "unknown_job")
        assert (b.deferrals, b.attempts_made, b.due_ms) == (0, 0, await store.now_ms() + 9_000)

    async def test_counts_crashes_attempts_and_suspicions_apart(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a"))
        policy = structs.replace(POLICY, attempts=9)
        company = structs.replace(CRASHED, in_company=True)
        expected = [(1, 0, 0), (1, 1, 0), (1, 2, 0), (1, 2, 1), (2, 2, 1), (2, 3, 1)]
        for how, counted in zip((RAISED, CRASHED, CRASHED, company, RAISED, CRASHED), expected, strict=True):
            await store.jobs.promote(["a"])
            (record,) = await claim(store)
            await store.jobs.settle([ended(record, how, policy)])
            settled = await stored(store, "a")
            assert (settled.attempts_made, settled.crashes, settled.suspicions) == counted
        failed = await stored(store, "a")
        assert (failed.state, failed.outcome) == (JobState.FAILED, "crashed")
        assert await store.jobs.retry(["a"]) == [True]
        again = await stored(store, "a")
        assert (again.attempts_made, again.crashes, again.suspicions, again.deferrals) == (0, 0, 0, 0)

    async def test_a_stale_claim_changes_nothing(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue(jobs("a"))
        (record,) = await claim(store, lease_ms=100)
        await clock.advance(100)
        (taken,) = await store.jobs.take_over(TakeOver("reaper", "t2", 5_000))
        before = await stored(store, "a")
        late = ended(record, structs.replace(COMPLETED, follow_up=(job("child"),)))
        forged = [Settlement(Claim("a", "forged", "q"), late.outcome), Settlement(Claim("b", "t2", "q"), late.outcome)]
        assert (await store.jobs.settle([late, *forged])).applied == [False, False, False]
        assert await stored(store, "a") == before
        assert await store.jobs.get(["child"]) == [None]
        assert (await store.jobs.settle([ended(taken, CRASHED)])).applied == [True]

    async def test_a_lease_that_is_over_settles_while_nobody_took_it(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue(jobs("a"))
        (record,) = await claim(store, lease_ms=100)
        await clock.advance(9_000)
        assert (await store.jobs.settle([ended(record)])).applied == [True]

    async def test_a_repeat_changes_nothing_and_is_true_again(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue(jobs("a b"))
        done, back = await claim(store, 2)
        settlements = [ended(done, structs.replace(COMPLETED, follow_up=(job("child"),))), ended(back, RAISED)]
        assert (await store.jobs.settle(settlements)).applied == [True, True]
        before = await store.jobs.find(JobQuery())
        await clock.advance(10)
        assert (await store.jobs.settle(settlements)).applied == [True, True]
        assert await store.jobs.find(JobQuery()) == before

    async def test_a_repeat_is_known_while_the_next_run_goes_on(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a"))
        (first,) = await claim(store)
        again = ended(first, Ended(kind="retry", after_ms=0))
        await store.jobs.settle([again])
        (second,) = await claim(store)
        before = await stored(store, "a")
        assert (await store.jobs.settle([again])).applied == [True]
        assert await stored(store, "a") == before
        await store.jobs.settle([ended(second)])
        assert (await store.jobs.settle([again])).applied == [False]

    async def test_follow_ups_are_added_in_the_same_step(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a"))
        (record,) = await claim(store)
        follow_up = (job("x", queue="other"), job("y", delay_ms=50), job("a"))
        settled = await store.jobs.settle(
            [ended(record, structs.replace(COMPLETED, follow_up=follow_up))], request(5, q=5, other=5)
        )
        assert ids(settled.claimed) == "x"
        assert settled.left_out == {0: (2,)}, "its id is there"
        assert [(await stored(store, name)).state.value for name in ("a", "x", "y")] == [
            "completed",
            "active",
            "delayed",
        ]

    async def test_claims_more_in_the_same_step(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a b c"))
        records = await claim(store, 2)
        then = request(2, worker="w2", token="next")
        settled = await store.jobs.settle([ended(records[0]), ended(records[1], GIVE_BACK)], then)
        assert (settled.applied, ids(settled.claimed)) == ([True, True], "b c")
        assert {record.worker for record in settled.claimed} == {"w2"}
        repeated = await store.jobs.settle([ended(records[0]), ended(records[1], GIVE_BACK)], then)
        assert repeated.claimed == settled.claimed
        assert ids((await store.jobs.settle([], request(1))).claimed) == ""

    async def test_a_batch_is_judged_one_by_one(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a b c"))
        a, b, c = await claim(store, 3)
        await store.jobs.settle([ended(b)])
        forged = Settlement(Claim("c", "forged", "q"), outcome(c))
        answer = await store.jobs.settle([ended(a), ended(b), forged, ended(c, FAILED), ended(a)])
        assert answer.applied == [True, True, False, True, True]
        assert [(await stored(store, name)).state.value for name in "abc"] == ["completed", "completed", "failed"]

    async def test_many_at_once_keep_what_each_came_to(self, store: Store, clock: ManualClock) -> None:
        names = [f"j{number}" for number in range(40)]
        await store.jobs.enqueue([job(name) for name in names])
        first = await claim(store, 20, worker='wörker "1"\n')
        await clock.advance(7)
        second = await claim(store, 20, worker="w2")
        await clock.advance(5)
        own = [Ended(kind="returned", result=f'"{number}"'.encode()) for number in range(10)]
        ends = [COMPLETED] * 25 + own + [FAILED] * 5
        settled = [ended(record, end) for record, end in zip([*first, *second], ends, strict=True)]
        assert (await store.jobs.settle(settled)).applied == [True] * 40
        done = [await stored(store, name) for name in names]
        assert [record.result for record in done] == [b'"done"'] * 25 + [end.result for end in own] + [None] * 5
        assert [record.outcome for record in done] == ["completed"] * 35 + ["failed"] * 5
        for record, settlement, by in zip(done, settled, ['wörker "1"\n'] * 20 + ["w2"] * 20, strict=True):
            (attempt,) = record.history
            assert attempt == settlement.outcome.attempt
            assert (attempt.worker, attempt.started_ms, record.attempts_made) == (by, record.started_ms, 1)

    async def test_the_history_keeps_the_newest(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a"))
        again = Ended(kind="retry", after_ms=0)
        policy = structs.replace(POLICY, attempts=1_000)
        claimed = await claim(store)
        for _ in range(HISTORY_LIMIT + 5):
            claimed = (await store.jobs.settle([ended(claimed[0], again, policy)], request())).claimed
        assert [attempt.number for attempt in claimed[0].history] == list(range(6, HISTORY_LIMIT + 6))


@pytest.mark.asyncio
class TestReport:
    async def test_progress_and_lines_stay_with_the_job(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a b"))
        record, other = await claim(store, 2)
        assert await store.jobs.report(record.claim, progress=b"1", lines=["one", "two"])
        assert await store.jobs.report(record.claim, lines=["", "ü\n\x00three"])
        assert await store.jobs.report(record.claim, progress=b'{"of":2}')
        assert await store.jobs.logs("a") == ["one", "two", "", "ü\n\x00three"]
        assert (await stored(store, "a")).progress == b'{"of":2}'
        await store.jobs.settle([ended(record)])
        assert (await stored(store, "a")).progress == b'{"of":2}'
        assert len(await store.jobs.logs("a")) == 4
        assert await store.jobs.logs(other.id) == []

    async def test_a_stale_claim_reports_nothing(self, store: Store, clock: ManualClock) -> None:
        await store.jobs.enqueue(jobs("a"))
        (record,) = await claim(store, lease_ms=100)
        await clock.advance(100)
        (taken,) = await store.jobs.take_over(TakeOver("reaper", "t2", 5_000))
        assert not await store.jobs.report(record.claim, progress=b"1", lines=["late"])
        assert not await store.jobs.report(Claim("nobody", "t", "q"), lines=["late"])
        assert (await stored(store, "a")).progress is None
        assert await store.jobs.logs("a") == []
        await store.jobs.settle([ended(taken)])
        assert not await store.jobs.report(taken.claim, lines=["late"])

    async def test_a_repeated_call_appends_nothing(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a"))
        (record,) = await claim(store)
        for call, lines in (("c1", ["one"]), ("c1", ["one"]), ("c2", ["two"]), ("c2", ["two"])):
            assert await store.jobs.report(record.claim, lines=lines, call=call)
        assert await store.jobs.logs("a") == ["one", "two"]
        for _ in range(2):
            await store.jobs.report(record.claim, lines=["uncalled"])
        assert await store.jobs.logs("a") == ["one", "two", "uncalled", "uncalled"]
