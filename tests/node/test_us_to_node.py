"""Jobs that we add, of every kind, run by Node's BullMQ 6."""

from __future__ import annotations

import pytest

from tests.node.node import NodeRoom
from tests.node.ours import job
from workfleet.model.jobs import JobRecord, JobState, Keep, KeepRule, RunOverrides, UniqueRule
from workfleet.model.policy import Backoff, exponential, fixed, linear
from workfleet.stores.redis.store import RedisStore

pytestmark = pytest.mark.full


async def stored(store: RedisStore, job_id: str) -> JobRecord:
    (record,) = await store.jobs.get([job_id])
    assert record is not None
    return record


def attempts(count: int, backoff: Backoff | None = None) -> RunOverrides:
    return RunOverrides(attempts=count) if backoff is None else RunOverrides(attempts=count, backoff=backoff)


async def test_the_order_of_kinds(node: NodeRoom, store: RedisStore) -> None:
    jobs = [job("low", priority=9), job("a"), job("b"), job("high", priority=1), job("last", lifo=True)]
    await store.jobs.enqueue(jobs)
    worker = await node.worker()
    await worker.until_saw("completed", "low")
    assert [each.job for each in worker.ends()] == ["last", "a", "b", "high", "low"]


async def test_many_in_one_call(node: NodeRoom, store: RedisStore) -> None:
    worker = await node.worker(concurrency=20)
    await store.jobs.enqueue([job(f"j{number}", data=number) for number in range(1, 501)])
    await worker.until(lambda seen: sum(each.event == "completed" for each in seen) == 500, "500 jobs")
    assert {each.said["returnvalue"] for each in worker.ends()} == set(range(1, 501))
    assert (await store.jobs.counts())["q"].completed == 500


async def test_delayed_jobs_run_when_due_in_their_order(node: NodeRoom, store: RedisStore) -> None:
    worker = await node.worker()
    await store.jobs.enqueue([job("later", delay_ms=400), job("soon", delay_ms=150), job("now")])
    await worker.until_saw("completed", "later")
    assert [each.job for each in worker.ends()] == ["now", "soon", "later"]
    for job_id, delay in (("soon", 150), ("later", 400)):
        record = await stored(store, job_id)
        assert record.started_ms is not None
        assert record.started_ms >= record.created_ms + delay


async def test_an_id_that_is_there_and_a_key_that_is_held(node: NodeRoom, store: RedisStore) -> None:
    events = await node.events()
    added = await store.jobs.enqueue([job("a"), job("a"), job("k1", unique_key="k"), job("k2", unique_key="k")])
    assert [(each.id, each.created) for each in added] == [("a", True), ("a", False), ("k1", True), ("k1", False)]
    await events.until_saw("duplicated", "a")
    worker = await node.worker()
    await worker.until_saw("completed", "k1")
    assert [each.job for each in worker.ends()] == ["a", "k1"]
    (again,) = await store.jobs.enqueue([job("k3", unique_key="k")])
    assert again.created


async def test_nodes_deduplication_and_our_key_are_one(node: NodeRoom, store: RedisStore) -> None:
    queue = await node.queue()
    await store.jobs.enqueue([job("ours", unique_key="k", unique=UniqueRule())])
    refused = await queue.call("add", "ok", {}, {"jobId": "theirs", "deduplication": {"id": "k"}})
    assert refused["id"] == "ours"
    assert await queue.call("getJobCounts", "wait") == {"wait": 1}


@pytest.mark.parametrize(
    ("backoff", "least", "most"),
    [
        (fixed("150ms"), (150, 150), (150, 150)),
        (exponential("100ms", jitter="none"), (100, 200), (100, 200)),
        (exponential("200ms"), (0, 0), (200, 400)),
        (linear("100ms"), (100, 100), (100, 100)),
        (None, (0, 0), (0, 0)),
    ],
)
async def test_retries_wait_as_the_job_says(
    node: NodeRoom, store: RedisStore, backoff: Backoff | None, least: tuple[int, int], most: tuple[int, int]
) -> None:
    queue, events = await node.queue(), await node.events()
    worker = await node.worker()
    await store.jobs.enqueue([job("a", "flaky", {"times": 2}, run=attempts(3, backoff))])
    await worker.until_saw("completed", "a")
    record = await stored(store, "a")
    assert (record.state, record.result, record.attempts_made) == (JobState.COMPLETED, b"3", 3)
    there = await queue.job("a")
    assert [trace.split("\n")[0] for trace in there["stacktrace"]] == ["Error: attempt 1", "Error: attempt 2"]
    if backoff is not None and backoff.jitter == "none":
        await events.until(lambda seen: sum(each.event == "delayed" for each in seen) == 2, "two waits")
    begun = [each.said["processedOn"] for each in worker.seen if each.event == "active"]
    for first, second, at_least, at_most in zip(begun, begun[1:], least, most, strict=False):
        assert at_least <= second - first <= at_most + 10_000  # that much later on a busy machine


async def test_attempts_that_are_used_up(node: NodeRoom, store: RedisStore) -> None:
    worker = await node.worker()
    await store.jobs.enqueue([job("a", "fail", {"message": "boom"}, run=attempts(2))])
    await worker.until(lambda seen: sum(each.event == "failed" for each in seen) == 2, "two failures")
    record = await stored(store, "a")
    assert (record.state, record.attempts_made, record.outcome) == (JobState.FAILED, 2, "failed")
    assert record.failure is not None
    assert record.failure.message == "boom"


async def test_a_job_that_puts_itself_off(node: NodeRoom, store: RedisStore) -> None:
    worker = await node.worker()
    await store.jobs.enqueue([job("a", "later", {"ms": 100})])
    await worker.until_saw("completed", "a")
    record = await stored(store, "a")
    assert (record.state, record.result, record.attempts_made) == (JobState.COMPLETED, b"2", 1)


async def test_a_job_that_says_the_queue_is_limited(node: NodeRoom, store: RedisStore) -> None:
    worker = await node.worker()
    await store.jobs.enqueue([job("a", "limited", {"ms": 200})])
    await worker.until_saw("completed", "a")
    begun = [each.said["processedOn"] for each in worker.seen if each.event == "active"]
    assert len(begun) == 2
    assert begun[1] - begun[0] >= 150
    assert (await stored(store, "a")).result == b"2"


async def test_a_workers_own_limit(node: NodeRoom, store: RedisStore) -> None:
    await store.jobs.enqueue([job(f"j{number}") for number in range(6)])
    worker = await node.worker(limiter={"max": 2, "duration": 300}, concurrency=6)
    await worker.until(lambda seen: sum(each.event == "completed" for each in seen) == 6, "six jobs")
    begun = sorted([(await stored(store, f"j{number}")).started_ms or 0 for number in range(6)])
    assert begun[5] - begun[0] >= 500


async def test_retention_that_we_said_is_kept_by_node(node: NodeRoom, store: RedisStore) -> None:
    queue, worker = await node.queue(), await node.worker()
    keep = Keep(completed=KeepRule(count=2))
    await store.jobs.enqueue([job(f"j{number}", keep=keep) for number in range(5)])
    await worker.until_saw("completed", "j4")
    assert await queue.call("getJobCounts", "completed") == {"completed": 2}
    assert [record is not None for record in await store.jobs.get([f"j{n}" for n in range(5)])] == [False] * 3 + [
        True
    ] * 2


async def test_progress_and_logs_of_a_node_worker(node: NodeRoom, store: RedisStore) -> None:
    worker = await node.worker(name="node1")
    await store.jobs.enqueue([job("p", "progress", [1, {"at": "Ä"}]), job("l", "log", ["one", "zwei ü"])])
    await worker.until_saw("completed", "p", "l")
    record = await stored(store, "p")
    assert record.progress == '{"at":"Ä"}'.encode()
    assert await store.jobs.logs("l") == ["one", "zwei ü"]


async def test_a_node_worker_leaves_our_field_alone(node: NodeRoom, store: RedisStore) -> None:
    worker = await node.worker()
    told = job(
        "a", "flaky", {"times": 1}, run=attempts(2), tags=("x",), metadata={"who": "me"}, expires_after_ms=60_000
    )
    await store.jobs.enqueue([told])
    await worker.until_saw("completed", "a")
    record = await stored(store, "a")
    assert (record.tags, record.metadata, record.run) == (("x",), {"who": "me"}, attempts(2))
