"""Flows of Node's: what becomes of parents when our worker ends their children is what Node's worker makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.node.node import NodeError, NodeRoom
from tests.node.ours import claim, finish, job, returned
from tests.node.twins import Both, act, node_of, picture, work_off
from tests.queues.rig import Rig
from tests.stores.redis.servers import Server
from workfleet.clock import SystemClock
from workfleet.errors import NotFound
from workfleet.events import JobClaimed
from workfleet.model.jobs import JobState
from workfleet.ports.jobs import JobQuery, PruneRule
from workfleet.queues.jobs import Jobs
from workfleet.stores.redis.store import RedisStore

pytestmark = pytest.mark.full

POLICIES = (
    "failParentOnFailure",
    "continueParentOnFailure",
    "ignoreDependencyOnFailure",
    "removeDependencyOnFailure",
)


def chosen(policy: str) -> dict[str, Any]:
    return {policy: True}


@pytest.fixture
def both(node: NodeRoom, store: RedisStore, server: Server) -> Both:
    return Both(node, store, server)


@pytest.mark.parametrize("said", [{}, {"priority": 3}, {"delay": 60_000}, {"lifo": True}], ids=str)
async def test_the_last_child_that_completes_releases_its_parent(both: Both, said: Mapping[str, Any]) -> None:
    await both.flow(node_of("p", node_of("a"), node_of("b"), queue="top", **said))
    (first,) = await claim(both.store, queue="kids")
    await finish(both.store, first, returned(first.id))
    top = await both.node.queue("top")
    assert await top.job("p", "getState") == "waiting-children"
    (second,) = await claim(both.store, queue="kids")
    await finish(both.store, second, returned({"n": [1, None]}))
    assert await top.job("p", "getChildrenValues") == {
        f"bull:kids:{first.id}": first.id,
        f"bull:kids:{second.id}": {"n": [1, None]},
    }
    state = {"priority": "prioritized", "delay": "delayed"}.get(next(iter(said), ""), "waiting")
    assert await top.job("p", "getState") == state


@pytest.mark.parametrize("said", [{}, {"priority": 3}, {"delay": 60_000}], ids=str)
@pytest.mark.parametrize("policy", [*POLICIES, "none"])
async def test_a_failed_child_does_to_its_parent_what_its_policy_says(
    both: Both, policy: str, said: Mapping[str, Any]
) -> None:
    how: dict[str, Any] = {} if policy == "none" else {policy: True}
    await both.flow(node_of("p", node_of("a", name="fail", **how), node_of("b"), queue="top", **said))
    assert sorted(await both.run("kids")) == ["a", "b"]
    both.same("kids", "top")
    await both.run("top")
    both.same("kids", "top")


@pytest.mark.parametrize("policy", [*POLICIES, "none"])
@pytest.mark.parametrize("name", ["ok", "fail"])
async def test_a_child_that_is_not_kept_leaves_its_parent_as_one_of_nodes_does(
    both: Both, name: str, policy: str
) -> None:
    how: dict[str, Any] = {} if policy == "none" else chosen(policy)
    await both.flow(node_of("p", node_of("a", name=name, removeOnComplete=True, removeOnFail=True, **how), queue="top"))
    assert await both.run("kids") == ["a"]
    both.same("kids", "top")
    assert await both.run("top") == ["p"]
    both.same("kids", "top")


async def test_a_parent_whose_child_failed_it_is_failed_unrun_by_us_and_fails_its_own(both: Both) -> None:
    fails = chosen("failParentOnFailure")
    middle = node_of("m", node_of("a", name="fail", **fails), queue="middle", attempts=5, **fails)
    await both.flow(node_of("p", middle, node_of("other"), queue="top"))
    await both.run("kids")
    assert await both.run("middle") == ["m"]
    both.same("kids", "middle", "top")
    assert await both.run("top") == ["p"]
    both.same("kids", "middle", "top")
    top = await both.node.queue("top")
    assert (await top.job("p"))["failedReason"] == "child bull:middle:m failed"


@pytest.mark.parametrize("policy", POLICIES[1:])
async def test_what_a_failure_does_not_stop_goes_on_to_the_grandparent(both: Both, policy: str) -> None:
    middle = node_of("m", node_of("a", name="fail", **chosen(policy)), queue="middle")
    await both.flow(node_of("p", middle, queue="top"))
    assert [await both.run(queue) for queue in ("kids", "middle", "top")] == [["a"], ["m"], ["p"]]
    both.same("kids", "middle", "top")


async def test_parents_and_children_in_one_queue(both: Both) -> None:
    await both.flow(node_of("p", node_of("m", node_of("a"), node_of("b")), node_of("c")))
    ran = await both.run("kids")
    assert sorted(ran) == ["a", "b", "c", "m", "p"]
    both.same("kids")


async def test_a_child_that_had_completed_before_counts(both: Both) -> None:
    await both.store.jobs.enqueue([job("a", data=5, queue="kids"), job("b", data=6, queue="kids")])
    assert await work_off(both.store, "kids") == ["a", "b"]
    flows, top = await both.node.flows(), await both.node.queue("top")
    await flows.call("add", node_of("p", node_of("a"), node_of("b"), queue="top"))
    assert await top.job("p", "getState") == "waiting"
    assert await top.job("p", "getChildrenValues") == {"bull:kids:a": 5, "bull:kids:b": 6}


async def test_a_job_of_ours_that_a_flow_takes_as_a_child_releases_the_parent(both: Both) -> None:
    await both.store.jobs.enqueue([job("a", data=5, queue="kids")])
    flows, top = await both.node.flows(), await both.node.queue("top")
    await flows.call("add", node_of("p", node_of("a"), queue="top"))
    assert await top.job("p", "getState") == "waiting-children"
    assert await work_off(both.store, "kids") == ["a"]
    assert await top.job("p", "getState") == "waiting"
    assert await work_off(both.store, "top") == ["p"]


async def test_a_parent_under_another_prefix(both: Both) -> None:
    flows, top = await both.node.flows(), await both.node.queue("top", prefix="elsewhere")
    tree = node_of("p", node_of("a"), node_of("b", name="fail", failParentOnFailure=True), queue="top")
    for child in tree["children"]:
        child["prefix"] = "bull"
    await flows.call("add", {**tree, "prefix": "elsewhere"})
    await work_off(both.store, "kids")
    assert await top.job("p", "getState") == "waiting"
    assert (await top.job("p"))["deferredFailure"] == "child bull:kids:b failed"


@pytest.mark.parametrize("ours", [False, True])
async def test_a_parent_that_nodes_worker_makes_wait_for_children_is_listed(both: Both, ours: bool) -> None:
    worker, top, events = await both.node.worker("top"), await both.node.queue("top"), await both.node.events("top")
    data = {"queue": "kids", "child": "a"}
    if ours:
        await both.store.jobs.enqueue([job("p", "spawn", data, queue="top")])
    else:
        await top.call("add", "spawn", data, {"jobId": "p"})
    await events.until_saw("waiting-children", "p")
    # Known to us as soon as one of us has worked on its queue.
    await claim(both.store, queue="top")
    await both.store.jobs.enqueue([job("x", queue="top", delay_ms=60_000)])
    (record,) = await both.store.jobs.get(["p"])
    assert record is not None
    assert record.state is JobState.WAITING_CHILDREN
    listed = await both.store.jobs.find(JobQuery(queue="top", states=(JobState.WAITING_CHILDREN,)))
    assert [each.id for each in listed] == ["p"]
    assert (await both.store.jobs.counts())["top"].waiting_children == 1
    assert await work_off(both.store, "kids") == ["a"]
    (done,) = await worker.until_saw("completed", "p")
    assert done.said["returnvalue"] == {"bull:kids:a": "a"}


async def test_a_parent_that_we_run_reads_what_its_children_came_to(both: Both) -> None:
    flows = await both.node.flows()
    children = (
        node_of("a", data={"n": [1, None]}),
        node_of("b", name="fail", ignoreDependencyOnFailure=True),
        node_of("c", name="fail", continueParentOnFailure=True),
    )
    await flows.call("add", node_of("p", *children, queue="top"))
    await work_off(both.store, "kids")
    (parent,) = await claim(both.store, queue="top")

    async def store() -> RedisStore:
        return both.store

    ours = Jobs(store, SystemClock())
    assert await ours.children_values(parent.id) == {"bull:kids:a": {"n": [1, None]}}
    failures = {"bull:kids:b": "b broke", "bull:kids:c": "c broke"}
    assert await ours.children_failures(parent.id) == failures
    top = await both.node.queue("top")
    assert await top.job("p", "getIgnoredChildrenFailures") == failures
    with pytest.raises(NotFound):
        await ours.children_values("nobody")


@pytest.mark.parametrize("policy", POLICIES[:3])
async def test_a_retried_child_is_waited_for_again(both: Both, policy: str) -> None:
    await both.flow(node_of("p", node_of("a", name="fail", **chosen(policy)), queue="top"))
    await both.run("kids")
    ours, twins = await both.queues("kids")
    assert await both.store.jobs.retry(["a"]) == [True]
    await twins.job("a", "retry", "failed", {"resetAttemptsMade": True, "resetAttemptsStarted": True})
    seen, wanted = picture(both.server, "bull", ("top",)), picture(both.server, "twin", ("top",))
    assert seen == wanted
    assert seen["top:p:dependencies"] == ["P:kids:a"]
    assert await ours.job("a", "getState") == "waiting"


async def test_a_cancelled_child_has_failed_and_a_cancelled_parent_waits_for_nobody(both: Both) -> None:
    fails = chosen("failParentOnFailure")
    flows, top = await both.node.flows(), await both.node.queue("top")
    await flows.call("add", node_of("p", node_of("a", **fails), node_of("b"), queue="top"))
    await flows.call("add", node_of("p2", node_of("c"), queue="top"))
    await both.store.jobs.enqueue([job(f"x{q}", queue=q, delay_ms=60_000) for q in ("kids", "top")])
    assert await both.store.jobs.cancel(["a", "p2"]) == ["cancelled", "cancelled"]
    assert (await top.job("p"))["deferredFailure"] == "child bull:kids:a failed"
    assert await top.job("p", "getState") == "waiting"
    assert await top.job("p2", "getState") == "failed"
    assert sorted(await work_off(both.store, "kids")) == ["b", "c"]
    assert await top.job("p2", "getState") == "failed"


async def test_deleting_a_parent_deletes_its_children(both: Both) -> None:
    tree = node_of("p", node_of("m", node_of("a"), queue="middle"), node_of("b"), queue="top")
    await both.flow(tree)
    await both.flow(node_of("other", queue="middle"))
    for queue in ("top", "kids", "middle"):
        await both.store.jobs.enqueue([job(f"x{queue}", queue=queue, delay_ms=60_000)])
    running = await claim(both.store, 2, queue="kids")
    assert await both.store.jobs.delete(["p"]) == [False]
    for record in running:
        await finish(both.store, record, returned(record.id))
    assert await both.store.jobs.delete(["p"]) == [True]
    there = await both.store.jobs.get(["p", "m", "a", "b", "other"])
    assert [record and record.id for record in there] == [None, None, None, None, "other"]


async def test_deleting_the_last_child_releases_its_parent(both: Both) -> None:
    await both.flow(node_of("p", node_of("a"), node_of("b"), queue="top", priority=4))
    await both.store.jobs.enqueue([job(f"x{q}", queue=q, delay_ms=60_000) for q in ("kids", "top")])
    top, _ = await both.queues("top")
    _, twins = await both.queues("kids")
    assert await both.store.jobs.delete(["a"]) == [True]
    assert await top.job("p", "getState") == "waiting-children"
    assert await both.store.jobs.delete(["b"]) == [True]
    assert await top.job("p", "getState") == "waiting"
    for child in ("a", "b"):
        await twins.call("remove", child)
    assert (
        both.server.ask("LRANGE", "bull:top:wait", 0, -1) == both.server.ask("LRANGE", "twin:top:wait", 0, -1) == [b"p"]
    )


async def test_pruning_a_failed_child_releases_its_parent_and_purging_one_purges_a_parent_beside_it(
    both: Both,
) -> None:
    flows, top, kids = await both.node.flows(), await both.node.queue("top"), await both.node.queue("kids")
    await flows.call("add", node_of("p", node_of("a", name="fail"), queue="top"))
    assert await work_off(both.store, "kids") == ["a"]
    assert await both.store.jobs.prune([PruneRule(JobState.FAILED, count=0)]) == 1
    assert await top.job("p", "getState") == "waiting"
    await flows.call("add", node_of("p", node_of("a"), queue="kids"))
    assert await both.store.jobs.purge("kids", [JobState.WAITING]) == 1
    with pytest.raises(NodeError, match="no job p"):
        await kids.job("p")


async def test_a_worker_fails_a_parent_whose_child_failed_it_unrun(both: Both) -> None:
    flows, top = await both.node.flows(), await both.node.events("top")
    await flows.call("add", node_of("p", node_of("a", name="fail", **chosen("failParentOnFailure")), queue="top"))

    async def fail(job: Any) -> None:
        raise ValueError(job.data["message"])

    async def never(_job: Any) -> None:
        raise AssertionError("its child has failed it")

    rig = Rig(both.store, concurrency={"kids": 1, "top": 1})
    rig.on(fail, queue="kids")
    rig.on(never, name="ok", queue="top")
    async with rig:
        (failed,) = await top.until_saw("failed", "p")
    assert failed.said["failedReason"] == "child bull:kids:a failed"
    (record,) = await both.store.jobs.get(["p"])
    assert record is not None
    assert (record.outcome, record.attempts_made, record.doomed) == ("failed", 1, None)
    assert [event.id for event in rig.told(JobClaimed)] == ["a"]


async def test_our_worker_does_not_run_what_node_has_let_stall_too_often(both: Both) -> None:
    queue = await both.node.queue("kids")
    await queue.call("add", "ok", 1, {"jobId": "a"})
    both.server.ask("HSET", "bull:kids:a", "defa", "job stalled more than allowable limit")
    (record,) = await claim(both.store, queue="kids")
    assert record.doomed is not None
    assert record.doomed.message == "job stalled more than allowable limit"
    await finish(both.store, record, await act(record))
    said = await queue.job("a")
    assert (said["failedReason"], said.get("deferredFailure")) == ("job stalled more than allowable limit", None)
