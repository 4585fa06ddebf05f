"""Jobs that Node's BullMQ 6 adds, of every kind, run by us."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.node.node import NodeRoom, Opened
from tests.node.ours import claim, finish, job, ok, raised, returned, until, working
from workfleet.model.jobs import JobRecord, JobState
from workfleet.model.outcome import Ended
from workfleet.ports.jobs import PruneRule
from workfleet.stores.redis.store import RedisStore

pytestmark = pytest.mark.full


async def fail(record: JobRecord) -> Ended:
    return raised(f"attempt {record.attempts_made + 1}")


async def add(queue: Opened, *jobs: tuple[str, dict[str, Any]], name: str = "ok") -> None:
    bulk = [{"name": name, "data": {"n": job_id}, "opts": {"jobId": job_id, **opts}} for job_id, opts in jobs]
    await queue.call("addBulk", bulk)


async def order(store: RedisStore, limit: int = 9) -> str:
    return " ".join(record.id for record in await claim(store, limit))


async def test_bulk_in_its_order_with_ids_of_bullmq(node: NodeRoom, store: RedisStore) -> None:
    queue, events = await node.queue(), await node.events()
    bulk = [{"name": "ok", "data": {"n": number}} for number in range(50)]
    added = await queue.call("addBulk", bulk)
    async with working(store, limit=7) as runs:
        await events.until_saw("completed", *(job["id"] for job in added))
    assert [run.id for run in runs] == [str(number) for number in range(1, 51)]
    assert await queue.call("getJobCounts", "completed", "wait", "active") == {"completed": 50, "wait": 0, "active": 0}


async def test_the_order_of_kinds(node: NodeRoom, store: RedisStore) -> None:
    queue = await node.queue()
    await add(
        queue, ("low", {"priority": 9}), ("a", {}), ("b", {}), ("high", {"priority": 1}), ("last", {"lifo": True})
    )
    assert await order(store) == "last a b high low"


async def test_equal_priorities_are_first_in_first_out(node: NodeRoom, store: RedisStore) -> None:
    queue = await node.queue()
    await add(queue, *[(f"j{number}", {"priority": 7}) for number in range(9)])
    assert await order(store) == " ".join(f"j{number}" for number in range(9))


async def test_delayed_jobs_run_when_due_in_their_order(node: NodeRoom, store: RedisStore) -> None:
    queue, events = await node.queue(), await node.events()
    await add(queue, ("later", {"delay": 400}), ("soon", {"delay": 150}), ("now", {}))
    async with working(store) as runs:
        await events.until_saw("completed", "later")
    assert [run.id for run in runs] == ["now", "soon", "later"]
    for run, delay in zip(runs, (0, 150, 400), strict=True):
        assert run.started_ms is not None
        assert run.started_ms >= run.created_ms + delay
        assert (await queue.job(run.id))["delay"] == 0


async def test_a_job_with_an_id_that_is_there_is_not_added_again(node: NodeRoom, store: RedisStore) -> None:
    queue, events = await node.queue(), await node.events()
    await add(queue, ("a", {}))
    await add(queue, ("a", {}))
    async with working(store) as runs:
        await events.until_saw("completed", "a")
    await add(queue, ("a", {}))
    assert [run.id for run in runs] == ["a"]
    assert await claim(store) == []


async def test_a_deduplicated_job_frees_its_id_when_we_complete_it(node: NodeRoom, store: RedisStore) -> None:
    queue = await node.queue()
    once = {"deduplication": {"id": "d"}}
    await add(queue, ("a", once))
    await add(queue, ("b", once))
    (record,) = await claim(store, 9)
    assert record.id == "a"
    await add(queue, ("c", once))
    assert await claim(store, 9) == []
    await finish(store, record, returned(1))
    await add(queue, ("d", once))
    assert await order(store) == "d"


@pytest.mark.parametrize(
    ("backoff", "waits"),
    [
        ({"type": "fixed", "delay": 150}, [(150, 150), (150, 150)]),
        ({"type": "exponential", "delay": 100}, [(100, 100), (200, 200)]),
        ({"type": "fixed", "delay": 200, "jitter": 1}, [(0, 200), (0, 200)]),
        ({"type": "fixed", "delay": 200, "jitter": 0.5}, [(100, 200), (100, 200)]),
        (80, [(80, 80), (80, 80)]),
        (None, [(0, 0), (0, 0)]),
    ],
)
async def test_retries_wait_as_the_job_says(
    node: NodeRoom, store: RedisStore, backoff: object, waits: list[tuple[int, int]]
) -> None:
    queue, events = await node.queue(), await node.events()
    async with working(store, fail) as runs:
        await add(queue, ("a", {"attempts": 3, **({} if backoff is None else {"backoff": backoff})}))
        (failed,) = await events.until_saw("failed", "a")
    assert failed.said["failedReason"] == "attempt 3"
    assert [run.attempts_made for run in runs] == [0, 1, 2]
    # The draw of the jitter is a half here.
    for (least, most), before, after in zip(waits, runs, runs[1:], strict=False):
        assert before.started_ms is not None
        asked = (least + most) // 2
        assert after.due_ms - before.started_ms in range(asked, asked + 2_000)  # a run takes its time
    there = await queue.job("a")
    assert (there["attemptsMade"], there["attemptsStarted"], len(there["stacktrace"])) == (3, 3, 3)


async def test_without_attempts_there_is_one(node: NodeRoom, store: RedisStore) -> None:
    queue, events = await node.queue(), await node.events()
    async with working(store, fail) as runs:
        await add(queue, ("a", {}))
        await events.until_saw("failed", "a")
    assert len(runs) == 1
    assert await queue.job("a", "getState") == "failed"


async def test_the_queues_own_rate_holds(node: NodeRoom, store: RedisStore) -> None:
    queue, events = await node.queue(), await node.events()
    await queue.call("setGlobalRateLimit", 2, 400)
    await add(queue, *[(f"j{number}", {}) for number in range(6)])
    async with working(store, limit=6) as runs:
        await events.until_saw("completed", *(f"j{number}" for number in range(6)))
    starts = [run.started_ms or 0 for run in runs]
    assert all(third - first >= 400 for first, third in zip(starts, starts[2:], strict=False)), starts


async def test_a_queue_that_node_holds_back_for_a_time_is_left_alone(node: NodeRoom, store: RedisStore) -> None:
    queue, events = await node.queue(), await node.events()
    await queue.call("setGlobalRateLimit", 100, 1_000)  # without a limit, BullMQ looks at no pause either
    await add(queue, ("a", {}))
    before = await store.now_ms()
    await queue.call("rateLimit", 500)
    async with working(store) as runs:
        await events.until_saw("completed", "a")
    assert runs[0].started_ms is not None
    assert runs[0].started_ms >= before + 500


async def test_the_global_concurrency_counts_both(node: NodeRoom, store: RedisStore) -> None:
    queue = await node.queue()
    await queue.call("setGlobalConcurrency", 2)
    worker = await node.worker(work=False)
    await add(queue, ("theirs", {}), ("a", {}), ("b", {}))
    assert (await worker.call("getNextJob", "t1", {"block": False}))["id"] == "theirs"
    (record,) = await claim(store, 9)
    assert record.id == "a"
    assert await worker.call("getNextJob", "t2", {"block": False}) is None
    await worker.job("theirs", "moveToCompleted", 1, "t1", False)
    assert await order(store) == "b"


@pytest.mark.parametrize("rule", [True, {"count": 0}])
async def test_what_node_wants_removed_is_gone_when_it_has_ended(
    node: NodeRoom, store: RedisStore, rule: object
) -> None:
    queue = await node.queue()
    await add(queue, ("a", {"removeOnComplete": rule}), ("b", {"removeOnFail": rule}), ("c", {}))
    a, b, c = await claim(store, 3)
    await finish(store, a, returned(1))
    await finish(store, b, raised("boom"))
    await finish(store, c, returned(1))
    assert await queue.call("getJobCounts", "completed", "failed") == {"completed": 1, "failed": 0}
    assert [each and each.id for each in await store.jobs.get(["a", "b", "c"])] == [None, None, "c"]
    assert await store.jobs.prune([]) == 0


async def test_what_node_wants_kept_for_ever_is_kept(node: NodeRoom, store: RedisStore) -> None:
    """Said of the job, or as the default of its queue; where nothing is said, our retention holds."""
    queue = await node.queue()
    others = await node.queue(defaultJobOptions={"removeOnComplete": False, "removeOnFail": -1})
    await add(queue, ("a", {"removeOnComplete": False}), ("b", {"removeOnFail": {"count": -1}}), ("c", {}), ("d", {}))
    await add(others, ("e", {}), ("f", {}))
    for each in await claim(store, 9):
        await finish(store, each, raised("boom") if each.id in ("b", "d", "f") else returned(1))
    assert await store.jobs.prune([PruneRule(state, count=0) for state in (JobState.COMPLETED, JobState.FAILED)]) == 2
    assert [each and each.id for each in await store.jobs.get(list("abcdef"))] == ["a", "b", None, None, "e", "f"]


@pytest.mark.parametrize("each", ["promote", "promoteJobs"])
async def test_newcomers_are_behind_what_node_has_promoted(node: NodeRoom, store: RedisStore, each: str) -> None:
    queue = await node.queue()
    await store.jobs.enqueue([job("d", delay_ms=60_000), *map(job, ("b0", "b1"))])
    await (queue.job("d", "promote") if each == "promote" else queue.call("promoteJobs"))
    for name in ("e0", "e1"):
        await store.jobs.enqueue([job(name)])
    assert await order(store) == "b0 b1 d e0 e1"


async def test_an_idle_worker_of_ours_hears_nodes_jobs_at_once(node: NodeRoom, store: RedisStore) -> None:
    queue = await node.queue()
    waiting = asyncio.create_task(store.jobs.wait(["q"], 20_000))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    await add(queue, ("a", {}))
    async with asyncio.timeout(15):
        assert await waiting


async def test_a_child_of_a_flow_that_we_run_releases_its_parent(node: NodeRoom, store: RedisStore) -> None:
    flows, queue = await node.flows(), await node.queue()
    children = [{"name": "ok", "queueName": "q", "data": {"n": 1}, "opts": {"jobId": "kid"}}]
    await flows.call("add", {"name": "ok", "queueName": "q", "opts": {"jobId": "mum"}, "children": children})
    (kid,) = await claim(store, 9)
    assert kid.id == "kid"
    await finish(store, kid, await ok(kid))
    (mum,) = await claim(store, 9)
    assert mum.id == "mum"
    assert await queue.job("mum", "getChildrenValues") == {"bull:q:kid": {"n": 1}}
    await finish(store, mum, returned(None))
    assert (await store.jobs.get(["mum"]))[0].state is JobState.COMPLETED  # type: ignore[union-attr]


async def test_we_wait_for_what_is_due(node: NodeRoom, store: RedisStore) -> None:
    queue = await node.queue()
    await add(queue, ("a", {"delay": 60_000}))
    due = await store.jobs.next_due_ms(["q"])
    there = await queue.job("a")
    assert due == there["timestamp"] + 60_000
    await queue.job("a", "promote")
    async with working(store) as runs:
        await until(lambda: runs, "the promoted job")
