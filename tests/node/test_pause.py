"""Pausing and resuming from either side."""

from __future__ import annotations

import asyncio

import pytest

from tests.node.node import NodeRoom
from tests.node.ours import claim, job, until, working
from workfleet.stores.redis.store import RedisStore

pytestmark = pytest.mark.full


async def test_node_pauses_and_resumes_us(node: NodeRoom, store: RedisStore) -> None:
    queue, events = await node.queue(), await node.events()
    await queue.call("pause")
    async with working(store) as runs:
        await queue.call("add", "ok", {}, {"jobId": "theirs"})
        await store.jobs.enqueue([job("ours")])
        assert (await store.queues.all())["q"].paused
        assert await claim(store, 9) == []
        assert (await store.jobs.counts())["q"].waiting == 2
        assert runs == []
        await queue.call("resume")
        await events.until_saw("completed", "theirs", "ours")
    assert [run.id for run in runs] == ["theirs", "ours"]


async def test_we_pause_and_resume_node(node: NodeRoom, store: RedisStore) -> None:
    queue, events, worker = await node.queue(), await node.events(), await node.worker()
    assert await store.queues.set_paused("q", paused=True)
    await events.until_saw("paused", "")
    assert await queue.call("isPaused") is True
    await store.jobs.enqueue([job("ours"), job("first", priority=1), job("late", delay_ms=50)])
    await queue.call("add", "ok", {}, {"jobId": "theirs"})
    await asyncio.sleep(0.5)
    assert worker.ends() == []
    assert await store.queues.set_paused("q", paused=False)
    await worker.until_saw("completed", "ours", "theirs", "first", "late")
    assert await queue.call("isPaused") is False


async def test_what_runs_when_node_pauses_ends(node: NodeRoom, store: RedisStore) -> None:
    queue = await node.queue()
    await store.jobs.enqueue([job("a"), job("b")])
    async with working(store) as runs:
        await until(lambda: len(runs) == 2, "both")
    await queue.call("pause")
    counts = (await store.jobs.counts())["q"]
    assert (counts.active, counts.completed) == (0, 2)


@pytest.mark.parametrize("resumer", ["node", "we"])
async def test_each_resumes_what_the_other_paused(node: NodeRoom, store: RedisStore, resumer: str) -> None:
    queue = await node.queue()
    await store.jobs.enqueue([job("a")])
    if resumer == "node":
        await store.queues.set_paused("q", paused=True)
        await queue.call("resume")
    else:
        await queue.call("pause")
        await store.queues.set_paused("q", paused=False)
    assert [record.id for record in await claim(store)] == ["a"]


async def test_a_fifth_versions_pause_loses_nothing_of_ours(node: NodeRoom, store: RedisStore) -> None:
    old = await node.queue(lib=5)
    await store.jobs.enqueue([job("before")])
    await old.call("pause")
    await store.jobs.enqueue([job("while")])
    await old.call("add", "ok", {}, {"jobId": "theirs"})
    await old.call("resume")
    assert sorted(record.id for record in await claim(store, 9)) == ["before", "theirs", "while"]
