"""Parents of BullMQ's flows that end while their children keep them from completing: as by Node's worker."""

from __future__ import annotations

from typing import Any

import pytest

from tests.node.node import NodeRoom
from tests.node.ours import claim, finish, job, raised
from tests.node.twins import Both, node_of, picture, work_off
from tests.queues.rig import Rig
from tests.stores.redis.servers import Server
from workfleet.events import JobSettled
from workfleet.model.jobs import JobState, RunOverrides
from workfleet.model.limits import QueueLimits
from workfleet.model.policy import fixed
from workfleet.stores.redis.store import RedisStore

pytestmark = pytest.mark.full


@pytest.fixture
def both(node: NodeRoom, store: RedisStore, server: Server) -> Both:
    return Both(node, store, server)


async def test_a_child_that_fails_while_its_parent_runs_keeps_it_from_completing(both: Both) -> None:
    children = (
        node_of("a", name="fail", continueParentOnFailure=True),
        node_of("b", name="fail", failParentOnFailure=True),
    )
    flows = await both.node.flows()
    await flows.call("add", node_of("p", *children, queue="top", attempts=5))
    by_id = {record.id: record for record in await claim(both.store, 2, queue="kids")}
    await finish(both.store, by_id["a"], raised("a broke"))
    await both.store.queues.set_limits({"top": QueueLimits()})  # as every worker does when it starts
    runs = []

    async def parent(_job: Any) -> str:
        runs.append(1)
        await finish(both.store, by_id["b"], raised("b broke"))
        return "done"

    rig = Rig(both.store, concurrency={"top": 1})
    rig.on(parent, name="ok", queue="top")
    async with rig:
        record = await rig.finished("p")
    said = await (await both.node.queue("top")).job("p")
    assert said["failedReason"] == "it cannot complete: 1 of its children have failed"
    assert (record.state, record.outcome, record.result) == (JobState.FAILED, "failed", None)
    assert (record.attempts_made, len(runs)) == (1, 1)
    assert [(event.outcome, event.state) for event in rig.told(JobSettled)] == [("failed", JobState.FAILED)]


@pytest.mark.parametrize("ours", [False, True])
async def test_a_parent_that_completes_before_its_children_is_tried_again_as_by_node(both: Both, ours: bool) -> None:
    """With its attempts and waits: the children may have finished by then."""
    top, kids = await both.node.queue("top"), await both.node.queue("kids")
    if ours:
        again = RunOverrides(attempts=3, backoff=fixed("10ms"))
        await both.store.jobs.enqueue([job("p", "parent", queue="top", run=again)])
    else:
        await top.call("add", "parent", None, {"jobId": "p", "attempts": 3, "backoff": {"type": "fixed", "delay": 10}})
    await both.store.jobs.enqueue([job("x", queue="top")])
    runs = []

    async def parent(job: Any) -> int:
        runs.append(job.attempt)
        if len(runs) == 1:
            await kids.call("add", "ok", 1, {"jobId": "a", "parent": {"id": "p", "queue": "bull:top"}})
        elif len(runs) == 3:
            assert await work_off(both.store, "kids") == ["a"]
        return len(runs)

    async def other(_job: Any) -> None: ...

    rig = Rig(both.store, concurrency={"top": 2}, total=2)
    rig.on(parent, queue="top")
    rig.on(other, name="ok", queue="top")
    async with rig:
        record, beside = await rig.finished("p"), await rig.finished("x")
    assert (record.state, record.result, record.attempts_made, runs) == (JobState.COMPLETED, b"3", 3, [1, 2, 3])
    tries = [(each.number, each.outcome, each.failure and each.failure.code) for each in record.history]
    assert tries == [(1, "failed", "children"), (2, "failed", "children"), (3, "completed", None)]
    assert (beside.state, beside.attempts_made) == (JobState.COMPLETED, 1)
    assert await top.job("p", "getState") == "completed"


async def test_a_parent_that_completes_before_its_children_fails_by_its_last_attempt_as_by_node(both: Both) -> None:
    for prefix in ("bull", "twin"):
        top, kids = [await both.node.queue(name, prefix=prefix) for name in ("top", "kids")]
        await top.call("add", "ok", 1, {"jobId": "p"})
        await top.call("pause")
        await kids.call("add", "ok", 1, {"jobId": "a", "parent": {"id": "p", "queue": f"{prefix}:top"}})
        await top.call("resume")

    async def parent(_job: Any) -> None: ...

    await both.store.queues.set_limits({"top": QueueLimits()})  # as every worker does when it starts
    rig = Rig(both.store, concurrency={"top": 1})
    rig.on(parent, name="ok", queue="top")
    async with rig:
        record = await rig.finished("p")
    worker = await both.node.worker("top", prefix="twin")
    await worker.until_saw("failed", "p")
    assert record.failure is not None
    assert (record.failure.code, record.failure.message) == (
        "children",
        "it cannot complete: 1 of its children have not finished",
    )
    ours, twins = picture(both.server, "bull", ("top", "kids")), picture(both.server, "twin", ("top", "kids"))
    said = [each["top:p"].pop("failedReason") for each in (ours, twins)]
    assert "pending dependencies" in said[1]
    for each in (ours, twins):
        assert [event.pop("failedReason", None) for event in each["top:events"]][-1] == said[each is twins]
    assert ours == twins
