"""In a few seconds: Node's BullMQ and our store share a queue, both ways."""

from __future__ import annotations

from tests.node.node import NodeRoom
from tests.node.ours import finish, job, ok, raised, working
from workfleet.model.jobs import JobRecord, JobState
from workfleet.model.limits import QueueLimits
from workfleet.model.outcome import Ended
from workfleet.ports.jobs import ClaimRequest, Want
from workfleet.stores.redis.store import RedisStore


async def test_we_run_what_node_adds(node: NodeRoom, store: RedisStore) -> None:
    queue, events = await node.queue(), await node.events()

    async def act(record: JobRecord) -> Ended:
        return raised("no luck") if record.name == "bad" else await ok(record)

    async with working(store, act) as runs:
        await queue.call("add", "good", {"to": "Ä"}, {"jobId": "a"})
        await queue.call("add", "bad", {"to": 7}, {"jobId": "b"})
        (completed,) = await events.until_saw("completed", "a")
        (failed,) = await events.until_saw("failed", "b")
    assert [(run.id, run.payload) for run in runs] == [("a", '{"to":"Ä"}'.encode()), ("b", b'{"to":7}')]
    assert completed.said == {"jobId": "a", "returnvalue": {"to": "Ä"}, "prev": "active"}
    assert failed.said == {"jobId": "b", "failedReason": "no luck", "prev": "active"}
    good, bad = await queue.job("a"), await queue.job("b")
    assert (good["returnvalue"], good["attemptsMade"], good["processedBy"]) == ({"to": "Ä"}, 1, "py1")
    assert bad["failedReason"] == "no luck"
    assert bad["stacktrace"][0].startswith("Traceback")


async def test_node_runs_what_we_add(node: NodeRoom, store: RedisStore) -> None:
    worker = await node.worker(name="node1")
    await store.jobs.enqueue([job("a", data={"to": "Ä"}), job("b", "fatal", {"message": "no way"})])
    await worker.until_saw("completed", "a")
    await worker.until_saw("failed", "b")
    a, b = await store.jobs.get(["a", "b"])
    assert a is not None
    assert b is not None
    assert (a.state, a.result, a.attempts_made) == (JobState.COMPLETED, '{"to":"Ä"}'.encode(), 1)
    assert (b.state, b.failure and b.failure.message) == (JobState.FAILED, "no way")


async def test_ids_that_node_counts_in_each_queue_are_kept_apart(node: NodeRoom, store: RedisStore) -> None:
    """Both queues have the jobs 1, 2 and 3; a worker that holds all six gives each its own end."""
    names = ("emails", "photos")
    queues = {name: await node.queue(name) for name in names}
    for name, queue in queues.items():
        await store.queues.set_limits({name: QueueLimits()})
        await queue.call("addBulk", [{"name": "n", "data": {name: number}} for number in range(3)])
    request = ClaimRequest("py1", "t", 30_000, tuple(Want(name, 9) for name in names))
    records = await store.jobs.claim(request)
    assert len(records) == 6
    for record in records:
        await finish(store, record, await ok(record))
    for name, queue in queues.items():
        assert await queue.call("getJobCounts", "completed") == {"completed": 3}
        found = [await queue.job(str(number)) for number in (1, 2, 3)]
        assert [each["returnvalue"] for each in found] == [{name: number} for number in range(3)]
