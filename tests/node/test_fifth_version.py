"""BullMQ 5.81.3 as producer and as worker, where it may be used."""

from __future__ import annotations

import pytest

from tests.node.node import NodeRoom
from tests.node.ours import WORKER, claim, finish, job, raised, returned, settlement, working
from workfleet.ids import new_token
from workfleet.model.jobs import Failure, JobState, RunOverrides
from workfleet.model.limits import QueueLimits
from workfleet.model.outcome import Ended
from workfleet.model.policy import fixed
from workfleet.ports.jobs import TakeOver
from workfleet.stores.redis.store import RedisStore

pytestmark = pytest.mark.full
CRASHED = Ended(kind="crashed", failure=Failure("crashed", "its worker is gone"))


async def test_we_run_what_it_adds(node: NodeRoom, store: RedisStore) -> None:
    queue, events = await node.queue(lib=5), await node.events(lib=5)
    kinds = {"low": {"priority": 9}, "a": {}, "late": {"delay": 3_000}, "high": {"priority": 1}, "last": {"lifo": True}}
    bulk = [{"name": "ok", "data": {"n": name}, "opts": {"jobId": name, **opts}} for name, opts in kinds.items()]
    await queue.call("addBulk", bulk)
    async with working(store) as runs:
        await events.until_saw("completed", *kinds)
    assert [run.id for run in runs] == ["last", "a", "high", "low", "late"]
    there = await queue.job("late")
    assert (there["returnvalue"], there["attemptsMade"], there["processedBy"]) == ({"n": "late"}, 1, WORKER)


async def test_it_runs_what_we_add(node: NodeRoom, store: RedisStore) -> None:
    worker = await node.worker(lib=5, name="node5")
    retried = RunOverrides(attempts=3, backoff=fixed("50ms"))
    await store.jobs.enqueue(
        [
            job("a", data={"x": 1}),
            job("p", priority=2),
            job("late", delay_ms=100),
            job("again", "flaky", {"times": 2}, run=retried),
            job("bad", "fatal", {"message": "no"}),
        ]
    )
    await worker.until_saw("completed", "a", "p", "late", "again")
    await worker.until_saw("failed", "bad")
    records = {record.id: record for record in await store.jobs.get(["a", "p", "late", "again", "bad"]) if record}
    assert records["a"].result == b'{"x":1}'
    assert (records["again"].attempts_made, records["again"].result) == (3, b"3")
    assert (records["bad"].state, records["bad"].failure and records["bad"].failure.message) == (JobState.FAILED, "no")


async def test_a_failure_of_ours_as_it_shows_it(node: NodeRoom, store: RedisStore) -> None:
    queue = await node.queue(lib=5)
    await store.jobs.enqueue([job("a", run=RunOverrides(attempts=1))])
    (record,) = await claim(store)
    await store.jobs.report(record.claim, progress=b"7", lines=["one"], call=new_token())
    await finish(store, record, raised("boom"))
    there = await queue.job("a")
    assert (there["failedReason"], there["progress"], len(there["stacktrace"])) == ("boom", 7, 1)
    assert await queue.logs("a") == ["one"]
    await queue.job("a", "retry", "failed")
    (record,) = await claim(store)
    await finish(store, record, returned("now"))
    assert await queue.job("a", "getState") == "completed"


async def test_each_recovers_what_the_other_left(node: NodeRoom, store: RedisStore) -> None:
    await store.queues.set_limits({"q": QueueLimits()})
    queue = await node.queue(lib=5)
    await store.jobs.enqueue([job("ours")])
    await claim(store, lease_ms=50)
    worker = await node.worker(lib=5, stalledInterval=100)
    await worker.until_saw("completed", "ours")
    await worker.close()

    dead = await node.worker(lib=5, work=False, lockDuration=50)
    await queue.call("add", "ok", {}, {"jobId": "theirs"})
    assert (await dead.call("getNextJob", new_token(), {"block": False}))["id"] == "theirs"
    taken = await store.jobs.take_over(TakeOver(WORKER, new_token(), 30_000))
    while not taken:
        taken = await store.jobs.take_over(TakeOver(WORKER, new_token(), 30_000))
    assert (await store.jobs.settle([settlement(taken[0], CRASHED)])).applied == [True]
    (record,) = await claim(store)
    assert (record.id, record.crashes) == ("theirs", 1)
