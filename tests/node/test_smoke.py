"""In a few seconds: Node's BullMQ and our store share a queue, both ways."""

from __future__ import annotations

from tests.node.node import NodeRoom
from tests.node.ours import job, ok, raised, working
from workfleet.model.jobs import JobRecord, JobState
from workfleet.model.outcome import Ended
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
