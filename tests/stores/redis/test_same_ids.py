"""BullMQ counts ids from 1 on in each queue, so that jobs of several queues have the same: they are kept apart."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.queues.rig import Rig
from tests.stores.redis.bullmq_side import add, fields
from tests.stores.redis.servers import Server
from workfleet.clock import SystemClock
from workfleet.errors import NotFound, UsageError
from workfleet.events import JobSettled
from workfleet.model.jobs import JobRecord, JobState
from workfleet.model.limits import QueueLimits
from workfleet.ports.jobs import ClaimRequest, TakeOver, Want
from workfleet.queues.jobs import Jobs
from workfleet.stores.redis.store import RedisStore
from workfleet.testing.contracts.harness import COMPLETED, RAISED, ended, job

QUEUES = ("emails", "photos")


@pytest_asyncio.fixture
async def shared(server: Server) -> AsyncIterator[RedisStore]:
    """Our store, with the jobs 1, 2 and 3 of a Node producer on each of two queues."""
    store = await RedisStore.open(server.url, app="shop", clock=SystemClock(), prefix="bull")
    now_ms = await store.now_ms()
    for queue in QUEUES:
        await store.queues.set_limits({queue: QueueLimits()})
        for number in (1, 2, 3):
            add(server, queue, str(number), now_ms, name=queue, data=json.dumps({queue: number}))
    yield store
    await store.close()


async def claimed(store: RedisStore, token: str = "t", lease_ms: int = 30_000) -> dict[tuple[str, str], JobRecord]:
    request = ClaimRequest("w", token, lease_ms, tuple(Want(queue, 9) for queue in QUEUES))
    return {(record.queue, record.id): record for record in await store.jobs.claim(request)}


def returned(server: Server) -> dict[str, Any]:
    """The return values that Node would see, by key."""
    keys = [f"{queue}:{number}" for queue in QUEUES for number in (1, 2, 3)]
    return {key: json.loads(fields(server, f"bull:{key}").get("returnvalue", "null")) for key in keys}


async def test_a_worker_runs_each_and_gives_each_its_own_result(shared: RedisStore, server: Server) -> None:
    rig = Rig(shared, concurrency=dict.fromkeys(QUEUES, 5))
    together = asyncio.Barrier(6)

    async def run(job: Any) -> Any:
        await together.wait()  # all six are held at once
        return {job.queue: job.data}

    for queue in QUEUES:
        rig.on(run, name=queue, queue=queue)
    async with rig, asyncio.timeout(30):
        while len(rig.told(JobSettled)) < 6:
            await asyncio.sleep(0.01)
    assert rig.restarts == []
    assert returned(server) == {
        f"{queue}:{number}": {queue: {queue: number}} for queue in QUEUES for number in (1, 2, 3)
    }
    assert {queue: each.completed for queue, each in (await shared.jobs.counts()).items()} == dict.fromkeys(QUEUES, 3)


async def test_an_end_is_that_of_its_own_queue(shared: RedisStore, server: Server) -> None:
    held = await claimed(shared)
    assert len(held) == 6
    done = [ended(held["emails", "1"], RAISED), ended(held["photos", "2"], COMPLETED)]
    for _ in range(2):  # the second time as a repeat
        assert (await shared.jobs.settle(done)).applied == [True, True]
    states = {
        (queue, record.id): record.state
        for queue in QUEUES
        for record in await shared.jobs.get(["1", "2", "3"], queue=queue)
        if record is not None
    }
    assert [at for at, state in states.items() if state is JobState.DELAYED] == [("emails", "1")]
    assert [at for at, state in states.items() if state is JobState.COMPLETED] == [("photos", "2")]
    assert len([at for at, state in states.items() if state is JobState.ACTIVE]) == 4
    stale = held["emails", "3"].claim
    await shared.jobs.settle([ended(held["emails", "3"], COMPLETED)])
    assert await shared.jobs.renew([stale, held["photos", "3"].claim], 30_000) == [False, True]
    assert not await shared.jobs.report(stale, lines=["late"])
    assert await shared.jobs.report(held["photos", "3"].claim, lines=["mine"])
    assert [await shared.jobs.logs("3", queue=queue) for queue in QUEUES] == [[], ["mine"]]


async def test_what_a_dead_worker_held_is_taken_over_as_its_own(shared: RedisStore) -> None:
    await claimed(shared, lease_ms=1)
    async with asyncio.timeout(10):
        taken: list[JobRecord] = []
        while len(taken) < 6:
            taken += await shared.jobs.take_over(TakeOver("r", "t2", 30_000))
    assert len({record.claim for record in taken}) == 6
    for record in taken:
        assert (await shared.jobs.settle([ended(record, COMPLETED)])).applied == [True]


async def test_an_id_alone_is_refused_where_it_is_several_jobs(shared: RedisStore) -> None:
    async def opened() -> RedisStore:
        return shared

    jobs = Jobs(opened, SystemClock())
    several = "each of the queues emails, photos has a job 1: say which queue is meant"
    for call in (jobs.get, jobs.logs, jobs.explain, jobs.delete, jobs.cancel, jobs.children_values):
        with pytest.raises(UsageError, match=several):
            await call("1")
    with pytest.raises(NotFound):
        await jobs.get("1", queue="elsewhere")
    assert [(await jobs.get("1", queue=queue)).queue for queue in QUEUES] == list(QUEUES)


@pytest.mark.parametrize("by", ["ids", "filters"])
async def test_what_is_done_to_jobs_of_a_queue_is_done_to_these(shared: RedisStore, by: str) -> None:
    async def opened() -> RedisStore:
        return shared

    jobs = Jobs(opened, SystemClock())
    if by == "ids":
        assert [one.result for one in await jobs.delete("1", "2", queue="photos")] == ["deleted"] * 2
        assert [one.result for one in await jobs.delete("3", queue="photos")] == ["deleted"]
    else:
        assert await jobs.delete_all(queue="photos") == 3
    assert [(job.queue, job.id) for job in await jobs.list()] == [("emails", each) for each in "321"]
    assert await jobs.cancel_all(everything=True) == 3


async def test_a_job_of_ours_may_have_the_id_of_one_that_bullmq_made_in_another_queue(shared: RedisStore) -> None:
    (added,) = await shared.jobs.enqueue([job("1", queue="reports")])
    assert added.created
    (again,) = await shared.jobs.enqueue([job("1", queue="reports")])
    (there,) = await shared.jobs.enqueue([job("1", queue="emails")])
    (ours,) = await shared.jobs.enqueue([job("1", queue="more")])
    assert [again.created, there.created, ours.created] == [False, False, False]
    assert (await shared.jobs.counts())["reports"].waiting == 1
