"""What Node sees of our work: events, counts, lists, workers, progress, logs, failures."""

from __future__ import annotations

import pytest

from tests.node.node import NodeRoom
from tests.node.ours import claim, finish, job, raised, returned
from workfleet.ids import new_token
from workfleet.model.jobs import RunOverrides
from workfleet.model.policy import fixed
from workfleet.stores.redis.store import RedisStore

pytestmark = pytest.mark.full


async def test_queue_events_sees_each_of_our_steps(node: NodeRoom, store: RedisStore) -> None:
    events = await node.events()
    await store.jobs.enqueue([job("a", run=RunOverrides(attempts=2, backoff=fixed("1m")))])
    (record,) = await claim(store)
    await store.jobs.report(record.claim, progress=b'{"at":1}', call=new_token())
    await finish(store, record, raised("boom"))
    await store.jobs.promote(["a"])
    (record,) = await claim(store)
    await finish(store, record, returned({"x": [1]}))
    await store.jobs.delete(["a"])
    await events.until_saw("removed", "a")
    seen = [(each.event, {k: v for k, v in each.said.items() if k != "delay"}) for each in events.seen]
    assert seen == [
        ("added", {"jobId": "a", "name": "ok"}),
        ("waiting", {"jobId": "a"}),
        ("active", {"jobId": "a", "prev": "waiting"}),
        ("progress", {"jobId": "a", "data": {"at": 1}}),
        ("delayed", {"jobId": "a"}),
        ("waiting", {"jobId": "a", "prev": "delayed"}),
        ("active", {"jobId": "a", "prev": "waiting"}),
        ("completed", {"jobId": "a", "returnvalue": {"x": [1]}, "prev": "active"}),
        ("drained", {}),
        ("removed", {"jobId": "a", "prev": "completed"}),
    ]


async def test_node_waits_for_the_result_of_a_job_of_ours(node: NodeRoom, store: RedisStore) -> None:
    queue, events = await node.queue(), await node.events()
    await store.jobs.enqueue([job("a")])
    (record,) = await claim(store)
    await finish(store, record, returned([1, 2]))
    await events.until_saw("completed", "a")
    there = await queue.job("a")
    assert there["returnvalue"] == [1, 2]


async def test_counts_and_lists(node: NodeRoom, store: RedisStore) -> None:
    queue = await node.queue()
    await store.jobs.enqueue([job("done"), job("bad", run=RunOverrides(attempts=1)), job("runs")])
    done, bad, _ = await claim(store, 3)
    await finish(store, done, returned(1))
    await finish(store, bad, raised("boom"))
    more = [job("w1"), job("w2"), job("p", priority=2), job("d", delay_ms=60_000)]
    await store.jobs.enqueue(more)
    kinds = ("completed", "failed", "active", "wait", "prioritized", "delayed", "waiting-children", "paused")
    counts = await queue.call("getJobCounts", *kinds)
    assert {kind: counts.get(kind, 0) for kind in kinds} == {
        "completed": 1, "failed": 1, "active": 1, "wait": 2, "prioritized": 1, "delayed": 1, "waiting-children": 0,
        "paused": 0,
    }  # fmt: skip
    for kind, ids in {"completed": "done", "failed": "bad", "active": "runs", "wait": "w2 w1", "prioritized": "p",
                      "delayed": "d"}.items():  # fmt: skip
        jobs = await queue.call("getJobs", [kind], 0, -1, False)
        assert sorted(each["id"] for each in jobs) == sorted(ids.split()), kind
    ours = (await store.jobs.counts())["q"]
    assert (ours.waiting, ours.prioritized, ours.delayed, ours.active, ours.completed, ours.failed) == (
        2,
        1,
        1,
        1,
        1,
        1,
    )


async def test_everything_of_a_failed_job(node: NodeRoom, store: RedisStore) -> None:
    queue = await node.queue()
    await store.jobs.enqueue([job("a", data={"who": "Ä"}, run=RunOverrides(attempts=1))])
    (record,) = await claim(store)
    await store.jobs.report(record.claim, progress=b"50", lines=["one", "zwei ü"], call=new_token())
    await finish(store, record, raised("no 'luck' \x00"))
    there = await queue.job("a")
    assert (there["name"], there["data"], there["progress"]) == ("ok", {"who": "Ä"}, 50)
    assert there["failedReason"] == "no 'luck' \x00"
    assert there["stacktrace"][0].startswith("Traceback (most recent call last):")
    assert (there["attemptsMade"], there["attemptsStarted"], there["processedBy"]) == (1, 1, "py1")
    assert there["processedOn"] <= there["finishedOn"]
    assert await queue.logs("a") == ["one", "zwei ü"]
    assert await queue.job("a", "getState") == "failed"


async def test_node_says_more_of_a_job_that_we_run(node: NodeRoom, store: RedisStore) -> None:
    queue = await node.queue()
    await store.jobs.enqueue([job("a")])
    (record,) = await claim(store)
    await queue.job("a", "log", "from node")
    await queue.job("a", "updateData", {"new": 1})
    await queue.job("a", "updateProgress", 7)
    await finish(store, record, returned(None))
    (ended,) = await store.jobs.get(["a"])
    assert ended is not None
    assert (ended.payload, ended.progress, await store.jobs.logs("a")) == (b'{"new":1}', b"7", ["from node"])


async def test_node_changes_jobs_of_ours_that_wait(node: NodeRoom, store: RedisStore) -> None:
    queue = await node.queue()
    await store.jobs.enqueue([job("a", priority=5), job("b", priority=3), job("d", delay_ms=60_000), job("x")])
    await queue.job("a", "changePriority", {"priority": 1})
    await queue.job("d", "changeDelay", 120_000)
    await queue.job("x", "remove")
    d, x = await store.jobs.get(["d", "x"])
    assert d is not None
    assert x is None
    assert await store.jobs.next_due_ms(["q"]) is not None
    assert [record.id for record in await claim(store, 9)] == ["a", "b"]
    await queue.job("d", "promote")
    assert [record.id for record in await claim(store, 9)] == ["d"]


async def test_node_retries_what_failed_here_and_we_what_failed_there(node: NodeRoom, store: RedisStore) -> None:
    queue, worker = await node.queue(), await node.worker()
    await store.jobs.enqueue([job("there", "fatal", {"message": "no"})])
    await worker.until_saw("failed", "there")
    await worker.close()
    assert await store.jobs.retry(["there"]) == [True]
    (record,) = await claim(store)
    await finish(store, record, raised("no") if record.attempts_made else returned("now"))
    assert await queue.job("there", "getState") == "completed"

    await store.jobs.enqueue([job("here", run=RunOverrides(attempts=1))])
    (record,) = await claim(store)
    await finish(store, record, raised("no"))
    await queue.job("here", "retry", "failed")
    (record,) = await claim(store)
    assert (record.id, record.failure) == ("here", record.failure)
    await finish(store, record, returned("now"))
    (ended,) = await store.jobs.get(["here"])
    assert ended is not None
    assert (ended.state.value, ended.outcome, ended.failure, ended.result) == ("completed", "completed", None, b'"now"')


@pytest.mark.parametrize("lib", [5, 6])
async def test_our_workers_are_listed(node: NodeRoom, store: RedisStore, lib: int) -> None:
    queue = await node.queue(lib=lib)
    await claim(store)
    await store.jobs.wait(["q"], 50)
    assert [each["name"] for each in await queue.call("getWorkers")] != []
