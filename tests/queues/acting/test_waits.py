"""Why a job waits."""

from __future__ import annotations

import random
from typing import Any

from msgspec import structs

from tests.queues.acting.steps import add, claim, finish, listen, park
from workfleet.app.health import pulse_request
from workfleet.model.fleet import PoolReport, WorkerRecord
from workfleet.model.jobs import JobState
from workfleet.model.limits import GroupLimits, QueueLimits, Rate
from workfleet.model.outcome import Outcome, Settlement
from workfleet.ports.jobs import ClaimRequest, JobQuery, Want
from workfleet.ports.stores import Store
from workfleet.queues.jobs import Jobs
from workfleet.supervision.identity import own_identity
from workfleet.testing.clock import TestClock


async def texts(jobs: Jobs, job_id: str) -> list[str]:
    return [reason.text for reason in await jobs.explain(job_id)]


async def codes(jobs: Jobs, job_id: str) -> list[str]:
    return [reason.code for reason in await jobs.explain(job_id)]


async def test_what_a_job_waits_for(store: Store, jobs: Jobs) -> None:
    await add(store, "a", group="g1")
    assert await texts(jobs, "a") == ["a worker that listens to queue 'q': none does"]
    await store.queues.set_paused("q", paused=True)
    assert (await texts(jobs, "a"))[0] == "queue 'q' to be resumed: it is paused"
    await store.queues.set_paused("q", paused=False)
    await listen(store, "p", "q")
    assert await texts(jobs, "a") == ["a free slot of a worker on queue 'q': it is the next of group 'g1'"]
    await add(store, "b", group="g1")
    assert await texts(jobs, "b") == ["a free slot of a worker on queue 'q', behind 1 job of group 'g1'"]
    await store.queues.set_limits({"q": QueueLimits(rate=Rate(1, 60_000))})
    assert await codes(jobs, "a") == ["next"]
    await claim(store)
    assert await texts(jobs, "b") == ["its turn, 2027-01-15T08:01:00Z: at most 1 in 1m start"]
    assert (await texts(jobs, "a"), await codes(jobs, "b")) == ([], ["rate"])
    await add(store, "later", delay_ms=90_000)
    assert await texts(jobs, "later") == ["its time, 2027-01-15T08:01:30Z (in 1m30s); `promote` makes it ready now"]


async def test_a_job_that_is_due_waits_behind_those_before_it(store: Store, jobs: Jobs, clock: TestClock) -> None:
    await listen(store, "q")
    await add(store, "due", delay_ms=1_000)
    await add(store, *(f"j{number}" for number in range(50)))
    clock.move_to(clock.now_ms() + 1_000)
    assert await texts(jobs, "due") == ["a free slot of a worker on queue 'q', behind 50 jobs"]
    assert (await store.jobs.get(["due"]))[0].state is JobState.DELAYED  # type: ignore[union-attr]
    await add(store, "beside")
    assert await texts(jobs, "beside") == ["a free slot of a worker on queue 'q', behind 51 jobs"]
    await store.jobs.claim(ClaimRequest("w", "t", 30_000, (Want("q", 50),)))
    assert await codes(jobs, "due") == ["next"]


async def test_what_a_job_waits_for_under_limits(store: Store, jobs: Jobs) -> None:
    await listen(store, "q")
    await store.queues.set_limits({"q": QueueLimits(concurrency=2, group=GroupLimits(concurrency=1))})
    await add(store, "a", group="g1")
    (a,) = await claim(store)
    assert await texts(jobs, "a") == []
    await add(store, "b", group="g1")
    assert await texts(jobs, "b") == ["one of the 1 jobs that may run at once in group 'g1' to end"]
    await add(store, "c", group="g2")
    await store.jobs.claim(ClaimRequest("w", "other", 30_000, (Want("q", 5),)))
    assert (await texts(jobs, "b"))[0] == "one of the 2 jobs that may run at once on queue 'q' to end"
    await finish(store, [a.claim], JobState.FAILED)
    assert await texts(jobs, "a") == []


async def test_a_parked_job_waits_for_the_one_that_runs(store: Store, jobs: Jobs) -> None:
    await park(store)
    await listen(store, "q")
    assert await texts(jobs, "second") == ["job first, which runs under its unique key 'k'"]
    assert await codes(jobs, "second") == ["key_busy"]


async def test_a_job_whose_name_no_living_worker_knows(store: Store, jobs: Jobs) -> None:
    await add(store, "a", name="welcome")

    async def knows(worker: str, *names: str) -> None:
        record = WorkerRecord(id=worker, identity=own_identity(), queues=("q",), handlers={"q": names})
        await store.fleet.register(record)

    await knows("w1", "bye", "hi")
    assert await texts(jobs, "a") == ["a worker that has a handler 'welcome': w1 knows bye, hi"]
    await knows("w2")
    assert await texts(jobs, "a") == ["a worker that has a handler 'welcome': all 2 that listen know bye, hi"]
    await knows("w2", "welcome")
    assert await codes(jobs, "a") == ["next"]
    await store.fleet.register(WorkerRecord(id="w2", identity=own_identity(), queues=("q",)))  # an older version
    assert await codes(jobs, "a") == ["next"]


async def a_worker(store: Store, name: str = "w", *, alive: bool = True, **facts: Any) -> WorkerRecord:
    identity = own_identity()
    if not alive:
        identity = structs.replace(identity, started="another process")
    record = WorkerRecord(**{"id": name, "identity": identity, "queues": ("q",), **facts})
    await store.fleet.register(record)
    return record


async def test_an_active_job_waits_for_a_place_in_a_pool(store: Store, jobs: Jobs, clock: TestClock) -> None:
    await add(store, "runs", "waits", "also")
    await claim(store, limit=3)
    full = PoolReport(name="cpu", state="running", size=2, ready=2, busy=2, queued=2, waiting=("waits", "also"))
    await a_worker(store)
    pools = (PoolReport(name="free", state="running", size=1), full)
    await store.pulse(structs.replace(pulse_request("test", clock), worker="w", pools=pools))
    clock.move_to(clock.now_ms() + 4_000)
    assert await texts(jobs, "waits") == [
        "a free child of pool 'cpu': 2 of 2 are busy, and 2 calls wait, as its worker said 4s ago"
    ]
    assert (await codes(jobs, "also"), await codes(jobs, "runs")) == (["pool"], [])


async def test_an_active_job_whose_worker_is_gone_waits_for_the_end_of_its_lease(
    store: Store, jobs: Jobs, clock: TestClock
) -> None:
    await add(store, "a")
    await claim(store)
    assert await texts(jobs, "a") == [], "of a worker that is not known nothing can be said"
    await a_worker(store, alive=False)
    assert await texts(jobs, "a") == [
        "the end of its lease at 2027-01-15T08:00:30Z (in 30s), to run again: its worker is gone"
    ]
    clock.move_to(clock.now_ms() + 30_000)
    assert await texts(jobs, "a") == [
        "a worker that takes it back and runs it again: its lease was over at 2027-01-15T08:00:30Z",
        "a worker that listens to queue 'q': w is gone",
    ]
    await a_worker(store, "other")
    assert await codes(jobs, "a") == ["lease"]


async def test_an_active_job_whose_worker_is_silent(store: Store, jobs: Jobs, clock: TestClock) -> None:
    await add(store, "a")
    (job,) = await claim(store)
    await a_worker(store)
    for _ in range(5):  # its supervisor keeps the lease
        clock.move_to(clock.now_ms() + 20_000)
        assert await store.jobs.renew([job.claim], 30_000) == [True]
    assert await texts(jobs, "a") == ["its worker, of which nothing is heard for 1m40s"]


async def test_workers_that_are_gone_or_silent_or_do_not_claim(store: Store, jobs: Jobs, clock: TestClock) -> None:
    await add(store, "a", name="welcome")
    await a_worker(store, "w1", alive=False)
    await a_worker(store, "w2", alive=False)
    assert await texts(jobs, "a") == ["a worker that listens to queue 'q': w1 and 1 more are gone"]
    await a_worker(store, "w3")
    clock.move_to(clock.now_ms() + 100_000)
    assert await texts(jobs, "a") == ["a worker that listens to queue 'q': of w3 nothing is heard for 1m40s"]
    await a_worker(store, "w3", instruction="quiet", handlers={"q": ("welcome",)})
    await store.fleet.instruct("w3", "quiet")
    assert await texts(jobs, "a") == ["a worker that listens to queue 'q' and claims: w3 was told to quiet"]
    await a_worker(store, "w4", handlers={"q": ("bye",)})
    assert await texts(jobs, "a") == ["a worker that has a handler 'welcome': w4 knows bye"], "w3 does not claim"


async def test_a_job_that_is_not_run_any_more(store: Store, jobs: Jobs, clock: TestClock) -> None:
    await listen(store, "q")
    await add(store, "soon", expires_after_ms=5_000)
    await add(store, "never", delay_ms=60_000, expires_ms=clock.now_ms() + 5_000)
    assert await codes(jobs, "soon") == ["next"]
    clock.move_to(clock.now_ms() + 5_000)
    assert await texts(jobs, "soon") == ["a worker that fails it: it expired at 2027-01-15T08:00:05Z"]
    assert await codes(jobs, "never") == ["expired"]
    await store.fleet.forget("w")
    assert await codes(jobs, "soon") == ["expired", "no_worker"]


async def test_one_that_was_put_off_waits_for_its_next_attempt(store: Store, jobs: Jobs, clock: TestClock) -> None:
    await listen(store, "q")
    await add(store, "a")
    (job,) = await claim(store)
    await store.jobs.settle([Settlement(job.claim, Outcome(state=JobState.DELAYED, code="snoozed", delay_ms=9_000))])
    assert await codes(jobs, "a") == ["backoff"]


async def test_how_many_are_ahead_is_how_many_are_claimed_before(store: Store, jobs: Jobs, clock: TestClock) -> None:
    """Of any mixture of priorities, last-in-first-out, delays and groups."""
    await listen(store, "q")
    draw = random.Random(7)
    for number in range(60):
        priority, group = draw.choice([0, 0, 1, 5]), draw.choice(["", "", "g1", "g2"])
        lifo = not priority and draw.random() < 0.3
        delay_ms = draw.choice([0, 0, 0, 500])
        await add(store, f"j{number}", priority=priority, lifo=lifo, group=group, delay_ms=delay_ms)
        clock.move_to(clock.now_ms() + draw.choice([0, 0, 3]))
    clock.move_to(clock.now_ms() + 1_000)
    await store.jobs.claim(ClaimRequest("w", "t", 30_000, (Want("q", 1),)))  # what is due is ready by now
    waiting = [job for job in await store.jobs.find(JobQuery("q", limit=100)) if job.state is not JobState.ACTIVE]
    said: dict[str, int] = {}
    for job in waiting:
        (reason,) = await jobs.explain(job.id)
        said[job.id] = 0 if reason.code == "next" else int(reason.text.split("behind ")[1].split()[0])
    claimed = await store.jobs.claim(ClaimRequest("w", "t2", 30_000, (Want("q", 100),)))
    order = {group: [job.id for job in claimed if job.group == group] for group in ("", "g1", "g2")}
    assert said == {job_id: at for group in order.values() for at, job_id in enumerate(group)}
    assert len(said) == 59
