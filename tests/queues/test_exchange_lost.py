"""The exchange and claims that are lost, or have no place on the board: a run ends, and its result is discarded."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from tests.queues.gates import Asking, complete, gated, give_back, lease_over, take_over
from tests.queues.rig import Notes, Rig, until
from workfleet.errors import StaleClaim
from workfleet.events import ClaimLost, JobClaimed, JobSettled
from workfleet.model.jobs import Claim, JobState
from workfleet.ports.jobs import ClaimRequest
from workfleet.ports.stores import Store
from workfleet.queues.renewal import Renewal

# Claims that are lost


async def test_the_result_of_a_run_that_lost_its_claim_is_discarded(rig: Rig) -> None:
    rig.lease_ms = 100
    gate = gated(rig)
    async with rig:
        job_id = await rig.enqueue("wait")
        await until(lambda: gate.inside["q"] == 1)
        await lease_over(rig.store)
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
        await lease_over(rig.store)
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

    async def quick(_job: Any) -> None:
        return None

    rig.on(long)
    rig.on(quick)
    async with rig:
        await rig.enqueue("long")
        await until(lambda: len(rig.board.notes) == 1)
        (claim,) = rig.board.notes.values()
        rig.exchange.lose(Claim(claim.job_id, "another token", claim.queue))
        await rig.finished(await rig.enqueue("quick"))
        assert ended == []
        rig.exchange.lose(claim)
        await until(lambda: ended)
        await until(lambda: [event for event in rig.told(JobSettled) if event.name == "long"])
    # Nobody had taken it over: it is given back, which is right as well.
    assert [event.outcome for event in rig.told(JobSettled) if event.name == "long"] == ["given_back"]


async def test_a_claim_that_is_lost_before_its_run_has_begun_runs_nothing(rig: Rig) -> None:
    ran: list[str] = []

    async def run(job: Any) -> None:
        ran.append(job.id)

    class LostAtOnce(Notes):
        def put(self, claim: Claim, **facts: Any) -> int:
            if not self.timeouts:
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


class BlockedAfterTheAnswer:
    """A job store, and somebody's code that blocks the loop as soon as the answer to a claim is there: so long that
    another worker takes the job over, runs it and completes it."""

    def __init__(self, store: Store, lease_ms: int, *, at_once: bool = True) -> None:
        """`at_once`: else `block` is for somebody to call."""
        self._store, self._lease_ms, self._at_once = store, lease_ms, at_once
        self._elsewhere: asyncio.Task[None] | None = None
        self.renewals = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store.jobs, name)

    async def claim(self, request: ClaimRequest) -> Any:
        for _ in range(3):
            await asyncio.sleep(0)  # the exchange waits for the answer by now, on a store in memory too
        answer = await self._store.jobs.claim(request)
        if answer and self._at_once:
            self._at_once = False
            asyncio.get_running_loop().call_soon(self.block)
        return answer

    async def renew(self, claims: Any, lease_ms: int) -> list[bool]:
        self.renewals += 1
        assert self._elsewhere is not None
        await self._elsewhere
        return await self._store.jobs.renew(claims, lease_ms)

    def block(self) -> None:
        time.sleep(1.5 * self._lease_ms / 1000)
        self._elsewhere = asyncio.create_task(self._complete())

    async def _complete(self) -> None:
        await lease_over(self._store)
        await complete(self._store, await take_over(self._store))


@pytest.mark.parametrize("room", [1_000, 0])
async def test_what_somebody_else_completed_before_it_was_noted_runs_nothing(rig: Rig, room: int) -> None:
    ran: list[str] = []

    async def run(job: Any) -> None:
        ran.append(job.id)

    rig.lease_ms, rig.board = 600, Notes(room)
    rig.on(run)
    job_id = await rig.enqueue("run")
    rig.jobs = blocked = BlockedAfterTheAnswer(rig.store, rig.lease_ms)
    async with rig:
        await until(lambda: rig.told(ClaimLost))
        assert (await rig.record(job_id)).state is JobState.COMPLETED
    assert (ran, blocked.renewals, rig.exchange.active) == ([], 1, 0)
    assert rig.told(JobSettled) == []


async def test_a_claim_that_only_the_loop_renews_is_made_sure_of_after_a_run_that_blocked_it(rig: Rig) -> None:
    """It was claimed with the run that blocks, and is behind it in the loop."""
    ran: list[str] = []

    async def run(job: Any) -> None:
        ran.append(job.id)
        blocked.block()

    rig.lease_ms, rig.board = 600, Notes(0)
    rig.on(run)
    first, second = await rig.enqueue_many(["run", "run"])
    rig.jobs = blocked = BlockedAfterTheAnswer(rig.store, rig.lease_ms, at_once=False)
    async with rig:
        await until(lambda: second in [event.id for event in rig.told(ClaimLost)])
        assert (await rig.record(second)).result == b'"elsewhere"'
    assert (ran, blocked.renewals) == ([first], 1)


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
        await lease_over(rig.store)
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
        await lease_over(rig.store)
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
        await lease_over(store)
        taken = [claim for claim in await take_over(store) if claim.job_id == kept or claim.job_id == lost]
        await give_back(store, [claim for claim in taken if claim.job_id == kept])
        jobs.answer.set()
        record = await rig.finished(kept)
        await until(lambda: rig.exchange.active == 0)
    # Both claims were lost while the answer was on its way: neither run started under the old one.
    assert jobs.calls.count("renew") == 1
    assert (record.state, ran) == (JobState.COMPLETED, [kept])
    assert (await rig.record(lost)).state is JobState.ACTIVE


# Claims that have no place on the board


async def test_what_the_board_cannot_hold_is_renewed_by_the_process_itself(rig: Rig) -> None:
    rig.board, rig.lease_ms = Notes(room=1), 600
    gate = gated(rig)
    async with rig:
        ids = await rig.enqueue_many(["wait", "wait"])
        await until(lambda: gate.inside["q"] == 2)
        (unnoted,) = rig.exchange.unnoted()
        renewal = Renewal(rig.store.jobs, rig.exchange.unnoted, rig.exchange.lose, lease_ms=600, clock=rig.clock)
        renewing = asyncio.create_task(renewal.serve())
        await lease_over(rig.store)
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
        await lease_over(rig.store)
        await take_over(rig.store)
        renewal = Renewal(rig.store.jobs, rig.exchange.unnoted, rig.exchange.lose, lease_ms=30, clock=rig.clock)
        renewing = asyncio.create_task(renewal.serve())
        await until(lambda: rig.told(ClaimLost))
        renewing.cancel()
    assert not gate.open.is_set()
