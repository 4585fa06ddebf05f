"""What docs/node.md says that a Node worker heeds, and what it does not see, of what we say of jobs and queues."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.node.node import NodeRoom
from tests.node.ours import claim, finish, job, returned
from workfleet.model.jobs import JobState, RunOverrides
from workfleet.model.limits import QueueLimits, Rate
from workfleet.model.policy import exponential, linear, own_backoff
from workfleet.stores.redis.store import RedisStore

pytestmark = pytest.mark.full


async def test_a_job_of_a_group_is_never_run_by_node(node: NodeRoom, store: RedisStore) -> None:
    worker = await node.worker()
    await store.jobs.enqueue([job("g", group="tenant"), job("plain")])
    await worker.until_saw("completed", "plain")
    queue = await node.queue()
    assert await queue.job("g", "getState") == "delayed"
    (record,) = await claim(store)
    assert record.id == "g"
    await finish(store, record, returned(1))
    assert [each.job for each in worker.ends()] == ["plain"]


async def test_an_expiry_is_nothing_to_node(node: NodeRoom, store: RedisStore) -> None:
    await store.jobs.enqueue([job("a", expires_ms=await store.now_ms() - 1)])
    worker = await node.worker()
    await worker.until_saw("completed", "a")


async def test_the_queues_own_limits_hold_for_node(node: NodeRoom, store: RedisStore) -> None:
    await store.queues.set_limits({"q": QueueLimits(concurrency=1, rate=Rate(2, 400))})
    worker = await node.worker(concurrency=5)
    await store.jobs.enqueue([job(f"j{number}", "slow", {"ms": 20}) for number in range(6)])
    await worker.until_saw("completed", "j5")
    runs = []
    for record in await store.jobs.get([f"j{number}" for number in range(6)]):
        assert record is not None
        assert record.started_ms is not None
        assert record.finished_ms is not None
        runs.append((record.started_ms, record.finished_ms))
    runs.sort()
    assert all(end <= start for (_, end), (start, _) in pairwise(runs))
    assert runs[5][0] - runs[0][0] >= 700  # two windows at the least


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (RunOverrides(), {}),
        (RunOverrides(attempts=4), {"attempts": 4}),
        (RunOverrides(backoff=linear("2s")), {"backoff": {"type": "fixed", "delay": 2_000}}),
        (RunOverrides(backoff=exponential("1s")), {"backoff": {"type": "exponential", "delay": 1_000, "jitter": 1}}),
        (RunOverrides(backoff=own_backoff("mine")), {"backoff": {"type": "exponential", "delay": 1_000, "jitter": 1}}),
        (RunOverrides(timeout_ms=5), {}),
    ],
)
async def test_how_often_and_when_again(
    node: NodeRoom, store: RedisStore, run: RunOverrides, said: dict[str, object]
) -> None:
    queue = await node.queue()
    await store.jobs.enqueue([job("a", run=run)])
    options = (await queue.job("a"))["opts"]
    assert {name: options[name] for name in ("attempts", "backoff") if options.get(name)} == said


async def test_a_name_that_node_does_not_know_fails_there(node: NodeRoom, store: RedisStore) -> None:
    worker = await node.worker()
    await store.jobs.enqueue([job("a", "only-python")])
    await worker.until_saw("failed", "a")
    (record,) = await store.jobs.get(["a"])
    assert record is not None
    assert record.state is JobState.FAILED
    assert record.failure is not None
    assert record.failure.message == "no behaviour named only-python"
