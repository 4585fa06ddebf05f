"""Why a job waits."""

from __future__ import annotations

from tests.queues.acting.steps import add, claim, finish, listen, park
from workfleet.model.jobs import JobState
from workfleet.model.limits import GroupLimits, QueueLimits, Rate
from workfleet.ports.stores import ClaimRequest, Store, Want
from workfleet.queues.jobs import Jobs


async def test_what_a_job_waits_for(store: Store, jobs: Jobs) -> None:
    await add(store, "a", group="g1")
    assert await jobs.waits_for("a") == ["a worker that listens to queue 'q': none does"]
    await store.queues.set_paused("q", paused=True)
    assert (await jobs.waits_for("a"))[0] == "queue 'q' to be resumed: it is paused"
    await store.queues.set_paused("q", paused=False)
    await listen(store, "p", "q")
    assert await jobs.waits_for("a") == ["a free slot of a worker on queue 'q', where no other job is ready"]
    await add(store, "b", group="g2")
    assert await jobs.waits_for("a") == ["a free slot of a worker on queue 'q', where 2 jobs are ready"]
    await store.queues.set_limits({"q": QueueLimits(rate=Rate(5, 60_000))})
    assert await jobs.waits_for("a") == ["its turn: at most 5 in 1m start"]
    await add(store, "later", delay_ms=90_000)
    assert await jobs.waits_for("later") == ["its time, 2027-01-15T08:01:30Z (in 1m30s); `promote` makes it ready now"]


async def test_what_a_job_waits_for_under_limits(store: Store, jobs: Jobs) -> None:
    await listen(store, "q")
    await store.queues.set_limits({"q": QueueLimits(concurrency=2, group=GroupLimits(concurrency=1))})
    await add(store, "a", group="g1")
    (a,) = await claim(store)
    assert await jobs.waits_for("a") == []
    await add(store, "b", group="g1")
    assert await jobs.waits_for("b") == ["one of the 1 jobs that may run at once in group 'g1' to end"]
    await add(store, "c", group="g2")
    await store.jobs.claim(ClaimRequest("w", "other", 30_000, (Want("q", 5),)))
    assert (await jobs.waits_for("b"))[0] == "one of the 2 jobs that may run at once on queue 'q' to end"
    await finish(store, [a.claim], JobState.FAILED)
    assert await jobs.waits_for("a") == []


async def test_a_parked_job_waits_for_the_one_that_runs(store: Store, jobs: Jobs) -> None:
    await park(store)
    assert await jobs.waits_for("second") == ["the job that runs under its unique key 'k'"]
