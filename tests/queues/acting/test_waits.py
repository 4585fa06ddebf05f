"""Why a job waits."""

from __future__ import annotations

from tests.queues.acting.steps import add, claim, finish, listen, park
from workfleet.model.fleet import WorkerRecord
from workfleet.model.jobs import JobState
from workfleet.model.limits import GroupLimits, QueueLimits, Rate
from workfleet.ports.stores import ClaimRequest, Store, Want
from workfleet.queues.jobs import Jobs
from workfleet.supervision.identity import own_identity


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
