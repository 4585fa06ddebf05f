"""The exchange: it claims only for free slots, runs each claim once, settles in batches, and stops in order."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from typing import Any

import pytest

from tests.queues.rig import POLICY, FaultyJobs, Notes, Rig, until
from workfleet.errors import Fail, Retry, StaleClaim
from workfleet.events import ClaimLost, JobClaimed, JobSettled
from workfleet.ids import new_token
from workfleet.model.jobs import Claim, JobState
from workfleet.model.outcome import GIVE_BACK, Settlement, decide
from workfleet.ports.stores import ClaimRequest, Store, TakeOver
from workfleet.queues.renewal import Renewal


class Gate:
    """A handler that waits until it is opened, and counts who is inside."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.inside: Counter[str] = Counter()
        self.most: Counter[str] = Counter()

    async def __call__(self, job: Any) -> str:
        self.inside[job.queue] += 1
        self.most[job.queue] = max(self.most[job.queue], self.inside[job.queue])
        await self.open.wait()
        self.inside[job.queue] -= 1
        return "through"


def gated(rig: Rig, *queues: str) -> Gate:
    gate = Gate()

    async def wait(job: Any) -> str:
        return await gate(job)

    for queue in queues or ("q",):
        rig.on(wait, queue=queue)
    return gate


async def take_over(store: Store) -> list[Claim]:
    """What somebody does whose keeper saw the leases expire."""
    records = await store.jobs.take_over(TakeOver("reaper", new_token(), 30_000))
    return [record.claim for record in records]


async def give_back(store: Store, claims: list[Claim]) -> None:
    for claim in claims:
        (record,) = await store.jobs.get([claim.job_id])
        assert record is not None
        settled = await store.jobs.settle([Settlement(claim, decide(GIVE_BACK, record, POLICY, now_ms=0, draw=0))])
        assert settled.applied == [True]


class Asking(FaultyJobs):
    """Notes what was claimed for. `slow_s` is how long each claim takes to be answered."""

    def __init__(self, jobs: Any, slow_s: float = 0.0) -> None:
        super().__init__(jobs, lambda *_: None)
        self.wants: list[dict[str, int]] = []
        self.answer = asyncio.Event()
        self.answer.set()
        self.claimed = asyncio.Event()

    async def claim(self, request: ClaimRequest) -> Any:
        self.calls.append("claim")
        self.wants.append({want.queue: want.limit for want in request.wants})
        records = await self._jobs.claim(request)
        if records:
            self.claimed.set()
        await self.answer.wait()
        return records


async def test_it_claims_for_free_slots_only(store: Store) -> None:
    jobs = Asking(store.jobs)
    rig = Rig(store, jobs=jobs, concurrency={"a": 2, "b": 3})
    gate = gated(rig, "a", "b")
    ids = [*await rig.enqueue_many(["wait"] * 5, queue="a"), *await rig.enqueue_many(["wait"] * 2, queue="b")]
    async with rig:
        await until(lambda: gate.inside == {"a": 2, "b": 2})
        counts = await store.jobs.counts()
        gate.open.set()
        records = [await rig.finished(job_id) for job_id in ids]
        await until(lambda: rig.exchange.active == 0)
    assert (counts["a"].active, counts["a"].waiting, counts["b"].active) == (2, 3, 2)
    assert jobs.wants[0] == {"a": 2, "b": 3}
    assert all(wanted.get("a", 0) <= 2 and wanted.get("b", 0) <= 3 for wanted in jobs.wants)
    assert gate.most == {"a": 2, "b": 2}
    assert {record.result for record in records} == {b'"through"'}
    assert rig.exchange.totals == {"completed": 7}


async def test_a_busy_worker_makes_few_calls(store: Store) -> None:
    jobs = FaultyJobs(store.jobs, lambda *_: None)
    rig = Rig(store, jobs=jobs)

    async def quick(_job: Any) -> None:
        await asyncio.sleep(0)

    rig.on(quick)
    ids = await rig.enqueue_many(["quick"] * 200)
    async with rig:
        for job_id in ids:
            await rig.finished(job_id)
    trades = jobs.calls.count("claim") + jobs.calls.count("settle")
    assert trades <= 45  # 200 jobs in batches of 10, and at most as many calls that carried only what had ended


async def test_a_full_queue_with_a_due_job_makes_no_tight_loop(store: Store) -> None:
    jobs = FaultyJobs(store.jobs, lambda *_: None)
    rig = Rig(store, jobs=jobs, concurrency={"full": 1, "free": 1})
    gate = gated(rig, "full", "free")
    first = await rig.enqueue("wait", queue="full")
    async with rig:
        await until(lambda: gate.inside["full"] == 1)
        delayed = await rig.enqueue("wait", queue="full", delay_ms=1)
        await asyncio.sleep(0.02)  # it is due now, and nobody has a slot for it
        before = len(jobs.calls)
        await asyncio.sleep(0.2)
        calls = len(jobs.calls) - before
        gate.open.set()
        await rig.finished(first)
        await rig.finished(delayed)
    assert calls <= 6


async def test_a_delayed_job_runs_when_it_is_due_not_at_the_poll(rig: Rig) -> None:
    async def late(job: Any) -> None:
        return None

    rig.on(late)
    async with rig:
        started = time.monotonic()
        record = await rig.finished(await rig.enqueue("late", delay_ms=80))
    assert record.started_ms is not None
    assert record.started_ms >= record.created_ms + 80
    assert time.monotonic() - started < 5


async def test_a_wake_during_a_call_is_not_lost(store: Store) -> None:
    """The job came after the store had looked, and the store tells nobody of it."""

    class Deaf(Asking):
        async def wait(self, queues: Any, timeout_ms: int) -> bool:
            await asyncio.Event().wait()
            return False

    jobs = Deaf(store.jobs)
    rig = Rig(store, jobs=jobs)
    gate = gated(rig)
    jobs.answer.clear()
    async with rig:
        await until(lambda: jobs.wants)
        await asyncio.sleep(0.02)  # the claim has been made, its answer is held back
        job_id = await rig.enqueue("wait")
        rig.exchange.wake()
        jobs.answer.set()
        gate.open.set()
        assert (await rig.finished(job_id)).state is JobState.COMPLETED


# Claims that are lost


async def test_the_result_of_a_run_that_lost_its_claim_is_discarded(rig: Rig) -> None:
    rig.lease_ms = 100
    gate = gated(rig)
    async with rig:
        job_id = await rig.enqueue("wait")
        await until(lambda: gate.inside["q"] == 1)
        await asyncio.sleep(0.11)
        (taken,) = await take_over(rig.store)
        gate.open.set()
        await until(lambda: rig.told(ClaimLost))
        assert rig.exchange.active == 0
    record = await rig.record(job_id)
    assert (record.state, record.token, record.result) == (JobState.ACTIVE, taken.token, None)
    assert rig.told(JobSettled) == []
    assert rig.exchange.totals == {}
    assert rig.board.notes == {}


async def test_a_job_is_claimed_anew_while_its_lost_run_goes_on(rig: Rig) -> None:
    """Both runs end, in any order; only the second one counts, and no slot is lost."""
    rig.lease_ms = 100
    first, second = asyncio.Event(), asyncio.Event()
    runs: list[asyncio.Event] = [second, first]

    async def twice(_job: Any) -> int:
        mine = runs.pop()
        await mine.wait()
        return 1 if mine is first else 2

    rig.on(twice)
    async with rig:
        job_id = await rig.enqueue("twice")
        await until(lambda: len(runs) == 1)
        old = rig.told(JobClaimed)
        await asyncio.sleep(0.11)
        await give_back(rig.store, await take_over(rig.store))
        await until(lambda: len(runs) == 0)
        assert (rig.exchange.active, len(rig.board.notes), len(old)) == (2, 2, 1)
        first.set()
        await until(lambda: rig.told(ClaimLost))
        (note,) = rig.board.notes.values()
        assert note.token == (await rig.record(job_id)).token  # the new claim is still kept
        second.set()
        record = await rig.finished(job_id)
        await until(lambda: rig.exchange.active == 0)
    assert (record.result, record.attempts_made) == (b"2", 1)
    assert rig.exchange.totals == {"completed": 1}


async def test_a_lost_claim_ends_its_run(rig: Rig) -> None:
    ended: list[str] = []

    async def long(job: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(job.id)

    rig.on(long)
    async with rig:
        await rig.enqueue("long")
        await until(lambda: len(rig.board.notes) == 1)
        (claim,) = rig.board.notes.values()
        rig.exchange.lose(Claim(claim.job_id, "another token"))
        await asyncio.sleep(0.02)
        assert ended == []
        rig.exchange.lose(claim)
        await until(lambda: ended)
        await until(lambda: rig.told(JobSettled))
    # Nobody had taken it over: it is given back, which is right as well.
    assert rig.told(JobSettled)[0].outcome == "given_back"


async def test_a_claim_that_is_lost_before_its_run_has_begun_runs_nothing(rig: Rig) -> None:
    ran: list[str] = []

    async def run(job: Any) -> None:
        ran.append(job.id)

    class LostAtOnce(Notes):
        def put(self, claim: Claim, **facts: Any) -> int:
            if not self.deadlines:
                asyncio.get_running_loop().call_soon(rig.exchange.lose, claim)
            return super().put(claim, **facts)

    rig.board = LostAtOnce()
    rig.on(run)
    async with rig:
        job_id = await rig.enqueue("run")
        await until(lambda: rig.told(JobSettled))
        first = rig.told(JobSettled)[0]
        rig.board = Notes()
    assert (first.id, first.outcome, ran) == (job_id, "given_back", [])


async def test_a_lost_claim_frees_the_slot_of_a_thread_when_the_thread_ends(rig: Rig) -> None:
    rig.concurrency = {"q": 1}
    rig.lease_ms = 100
    asked = threading.Event()
    runs: list[str] = []

    def stubborn(job: Any) -> str:
        runs.append(job.id)
        if len(runs) == 1:
            while not job.cancelled:
                time.sleep(0.001)
            asked.set()
        return "late"

    rig.on(stubborn)
    async with rig:
        first = await rig.enqueue("stubborn")
        await until(lambda: runs)
        (claim,) = rig.board.notes.values()
        await asyncio.sleep(0.11)
        await take_over(rig.store)
        rig.exchange.lose(claim)
        await until(lambda: rig.told(ClaimLost))
        second = await rig.enqueue("stubborn")
        record = await rig.finished(second)
    assert asked.is_set()
    assert (record.result, runs) == (b'"late"', [first, second])
    assert (await rig.record(first)).result is None


async def test_progress_under_a_lost_claim_raises_and_ends_the_run(rig: Rig) -> None:
    rig.lease_ms = 100
    taken = asyncio.Event()
    seen: list[object] = []

    async def reports(job: Any) -> None:
        await taken.wait()
        try:
            await job.progress(50)
        except StaleClaim as error:
            seen.append((error.job_id, job.cancelled))
            raise

    rig.on(reports)
    async with rig:
        job_id = await rig.enqueue("reports")
        await until(lambda: rig.exchange.active == 1)
        await asyncio.sleep(0.11)
        await take_over(rig.store)
        taken.set()
        await until(lambda: rig.told(ClaimLost))
    assert seen == [(job_id, True)]
    assert (await rig.record(job_id)).progress is None


async def test_a_claim_that_was_answered_late_is_renewed_before_it_starts(store: Store) -> None:
    jobs = Asking(store.jobs)
    rig = Rig(store, jobs=jobs, lease_ms=90)
    ran: list[str] = []

    async def run(job: Any) -> None:
        ran.append(job.id)

    rig.on(run)
    kept, lost = await rig.enqueue_many(["run", "run"])
    jobs.answer.clear()
    async with rig:
        await jobs.claimed.wait()
        await asyncio.sleep(0.1)
        taken = [claim for claim in await take_over(store) if claim.job_id == kept or claim.job_id == lost]
        await give_back(store, [claim for claim in taken if claim.job_id == kept])
        jobs.answer.set()
        record = await rig.finished(kept)
        await asyncio.sleep(0.02)
    # Both claims were lost while the answer was on its way: neither run started under the old one.
    assert jobs.calls.count("renew") == 1
    assert (record.state, ran) == (JobState.COMPLETED, [kept])
    assert (await rig.record(lost)).state is JobState.ACTIVE


# Claims that have no place on the board


async def test_what_the_board_cannot_hold_is_renewed_by_the_process_itself(rig: Rig) -> None:
    rig.board, rig.lease_ms = Notes(room=1), 60
    gate = gated(rig)
    async with rig:
        ids = await rig.enqueue_many(["wait", "wait"])
        await until(lambda: gate.inside["q"] == 2)
        (unnoted,) = rig.exchange.unnoted()
        renewal = Renewal(rig.store.jobs, rig.exchange.unnoted, rig.exchange.lose, lease_ms=60, clock=rig.clock)
        renewing = asyncio.create_task(renewal.serve())
        await asyncio.sleep(0.15)
        taken = await take_over(rig.store)
        renewing.cancel()
        gate.open.set()
        await rig.finished(unnoted.job_id)
    (noted,) = set(ids) - {unnoted.job_id}
    assert [claim.job_id for claim in taken] == [noted]  # this test has no keeper


async def test_a_renewal_that_is_refused_ends_the_run(rig: Rig) -> None:
    rig.board, rig.lease_ms = Notes(room=0), 30
    gate = gated(rig)
    async with rig:
        await rig.enqueue("wait")
        await until(lambda: gate.inside["q"] == 1)
        await asyncio.sleep(0.035)
        await take_over(rig.store)
        renewal = Renewal(rig.store.jobs, rig.exchange.unnoted, rig.exchange.lose, lease_ms=30, clock=rig.clock)
        renewing = asyncio.create_task(renewal.serve())
        await until(lambda: rig.told(ClaimLost))
        renewing.cancel()
    assert not gate.open.is_set()


# The graceful stop


async def test_drain_lets_jobs_end_and_claims_no_more(rig: Rig) -> None:
    rig.concurrency = {"q": 1}
    gate = gated(rig)
    async with rig:
        ids = await rig.enqueue_many(["wait", "wait"])
        await until(lambda: gate.inside["q"] == 1)
        draining = asyncio.create_task(rig.exchange.drain(10))
        await asyncio.sleep(0.01)
        gate.open.set()
        assert await draining == 0
    assert sorted([(await rig.record(job_id)).state for job_id in ids]) == [JobState.COMPLETED, JobState.WAITING]


async def test_drain_gives_back_what_does_not_end_and_counts_no_attempt(rig: Rig) -> None:
    cleaned: list[str] = []

    async def long(job: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            cleaned.append(job.id)

    rig.on(long)
    async with rig:
        job_id = await rig.enqueue("long")
        await until(lambda: rig.exchange.active == 1)
        assert await rig.exchange.drain(0.01) == 1
        assert rig.exchange.active == 0
    record = await rig.record(job_id)
    assert (record.state, record.attempts_made, record.crashes, record.history) == (JobState.WAITING, 0, 0, ())
    assert cleaned == [job_id]


async def test_drain_waits_for_a_claim_that_is_on_its_way_and_gives_it_back(store: Store) -> None:
    """Without that, the job would stay active until its lease is over, and count as crashed."""
    jobs = Asking(store.jobs)
    rig = Rig(store, jobs=jobs)
    gate = gated(rig)
    jobs.answer.clear()
    async with rig:
        job_id = await rig.enqueue("wait")
        await jobs.claimed.wait()
        draining = asyncio.create_task(rig.exchange.drain(10))
        await asyncio.sleep(0.02)
        assert not draining.done()
        jobs.answer.set()
        assert await draining == 1
    record = await rig.record(job_id)
    assert (record.state, record.attempts_made, gate.most["q"]) == (JobState.WAITING, 0, 0)


async def test_drain_asks_threads_and_settles_what_ends_in_time(rig: Rig) -> None:
    began: list[str] = []

    def patient(job: Any) -> str:
        began.append(job.name)
        while not job.cancelled:
            time.sleep(0.001)
        if job.name == "finishes":
            return "in time"
        raise Fail("no") if job.name == "fails" else Retry("stopped half-way")

    for name in ("finishes", "stops", "fails"):
        rig.on(patient, name=name)
    async with rig:
        ids = await rig.enqueue_many(["finishes", "stops", "fails"])
        await until(lambda: len(began) == 3)
        assert await rig.exchange.drain(0.01) == 1
    finishes, stops, fails = [await rig.record(job_id) for job_id in ids]
    assert (finishes.state, finishes.result) == (JobState.COMPLETED, b'"in time"')
    assert (stops.state, stops.attempts_made) == (JobState.WAITING, 0)  # what stopped as asked has not failed
    assert (fails.state, fails.outcome) == (JobState.FAILED, "failed")


async def test_a_thread_that_does_not_end_stays_on_the_board(rig: Rig) -> None:
    """Only the end of this process may give its job back, or it would run twice at a time."""
    began, go_on = threading.Event(), threading.Event()

    def deaf(_job: Any) -> None:
        began.set()
        go_on.wait(10)

    rig.on(deaf)
    async with rig:
        job_id = await rig.enqueue("deaf")
        await until(began.is_set)
        started = time.monotonic()
        assert await rig.exchange.drain(0.01) == 0
        assert time.monotonic() - started < 2
        assert rig.exchange.active == 1
        assert [claim.job_id for claim in rig.board.notes.values()] == [job_id]
        assert (await rig.record(job_id)).state is JobState.ACTIVE
    go_on.set()


async def test_a_result_that_came_just_before_the_stop_is_kept(store: Store) -> None:
    """The run has ended and only its log is being written when the drain cancels it."""

    class SlowLog(FaultyJobs):
        writing = asyncio.Event()
        go_on = asyncio.Event()

        async def report(self, *args: Any, **kwargs: Any) -> Any:
            self.writing.set()
            await self.go_on.wait()
            return await store.jobs.report(*args, **kwargs)

    jobs = SlowLog(store.jobs, lambda *_: None)
    rig = Rig(store, jobs=jobs)

    async def talks(job: Any) -> str:
        job.log("the last words")
        return "done"

    rig.on(talks)
    async with rig:
        job_id = await rig.enqueue("talks")
        await jobs.writing.wait()
        draining = asyncio.create_task(rig.exchange.drain(0))
        await until(lambda: rig.told(JobSettled))
        assert await draining == 0
        jobs.go_on.set()
    assert ((await rig.record(job_id)).state, (await rig.record(job_id)).result) == (JobState.COMPLETED, b'"done"')


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_events_tell_a_run_from_claim_to_settle(rig: Rig, kind: str) -> None:
    async def coroutine(_job: Any) -> int:
        return 7

    def function(_job: Any) -> int:
        return 7

    rig.on(coroutine if kind == "async" else function, name="seven")
    async with rig:
        job_id = await rig.enqueue("seven")
        await rig.finished(job_id)
        await until(lambda: rig.told(JobSettled))
    (claimed,) = rig.told(JobClaimed)
    (settled,) = rig.told(JobSettled)
    assert (claimed.id, claimed.name, claimed.queue, claimed.attempt, claimed.max_attempts) == (
        job_id, "seven", "q", 1, 2
    )  # fmt: skip
    assert 0 <= claimed.wait_ms < 10_000
    assert (settled.id, settled.state, settled.outcome, settled.attempt, settled.error) == (
        job_id, "completed", "completed", 1, None
    )  # fmt: skip


async def test_housekeeping_is_not_counted(rig: Rig) -> None:
    async def beat(_job: Any) -> None:
        return None

    rig.on(beat)
    async with rig:
        await rig.finished(await rig.enqueue("beat", housekeeping=True))
        await until(lambda: rig.told(JobSettled))
    assert rig.exchange.totals == {}
    assert rig.told(JobSettled)[0].severity() == "debug"


async def test_speed_of_no_ops(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """Printed, not judged: the machine is shared."""
    rig = Rig(store, concurrency={"q": 100})

    async def noop(_job: Any) -> None:
        return None

    rig.on(noop)
    count = 2_000
    await rig.enqueue_many(["noop"] * count)
    async with rig:
        started = time.perf_counter()
        await until(lambda: rig.exchange.totals["completed"] == count)
        rate = count / (time.perf_counter() - started)
    with capsys.disabled():
        print(f"\n  {type(store).__name__}: {rate:,.0f} no-op jobs/s")
