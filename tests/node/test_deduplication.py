"""Deduplication: what Node has deduplicated and we run, and our unique keys as Node sees them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.node.node import NodeRoom, Opened
from tests.node.ours import claim, finish, job, raised, returned, working
from tests.node.twins import Both, picture
from tests.stores.redis.bullmq_side import texts
from tests.stores.redis.leaks import left_behind
from tests.stores.redis.servers import Server
from workfleet.model.jobs import Enqueued, JobRecord, JobState, Keep, KeepRule, UniqueRule
from workfleet.model.outcome import Ended
from workfleet.ports.jobs import PruneRule
from workfleet.stores.redis.store import RedisStore

pytestmark = pytest.mark.full

MINUTE = 60_000
KINDS: dict[str, dict[str, Any]] = {
    "simple": {},
    "throttle": {"ttl": MINUTE},
    "extend": {"ttl": MINUTE, "extend": True},
    "replace": {"replace": True},
    "debounce": {"ttl": MINUTE, "extend": True, "replace": True},
    "keep-last": {"keepLastIfActive": True},
    "keep-last-replace": {"keepLastIfActive": True, "replace": True},
    "keep-last-ttl": {"keepLastIfActive": True, "ttl": MINUTE},
}


@pytest.fixture
def both(node: NodeRoom, store: RedisStore, server: Server) -> Both:
    return Both(node, store, server)


async def add(queue: Opened, data: object, how: Mapping[str, Any], name: str = "ok", **opts: Any) -> str:
    """Add a job that is deduplicated as "d". The id of who stands for that now."""
    added = await queue.call("add", name, data, {"deduplication": {"id": "d", **how}, **opts})
    return str(added["id"])


@pytest.mark.parametrize("how", KINDS.values(), ids=KINDS)
async def test_the_end_of_a_job_frees_or_keeps_its_id(both: Both, how: Mapping[str, Any]) -> None:
    for queue in await both.queues("q"):
        await add(queue, 1, how)
        await add(queue, 2, how)
    assert await both.run("q") == ["1"]
    both.same("q")


@pytest.mark.parametrize("how", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("opts", [{}, {"priority": 2}, {"delay": MINUTE}, {"jobId": "mine"}, {"lifo": True}], ids=str)
async def test_what_was_added_while_it_ran(
    both: Both, how: Mapping[str, Any], fails: bool, opts: Mapping[str, Any]
) -> None:
    ours, twins = await both.queues("q")
    worker = await both.node.worker("q", prefix="twin", work=False)
    for queue in (ours, twins):
        await add(queue, 1, how)
    (record,) = await claim(both.store)
    await worker.call("getNextJob", "t1")
    for queue in (ours, twins):
        await add(queue, 2, how, **opts)
        await add(queue, {"last": [3]}, how, **opts)
    await finish(both.store, record, raised("no") if fails else returned(1))
    end = ("moveToFailed", {"$error": "no"}) if fails else ("moveToCompleted", 1)
    await twins.job("1", *end, "t1", False)
    both.same("q")


async def test_a_retry_that_waits_keeps_the_id(both: Both) -> None:
    queue = await both.node.queue()
    first = await add(queue, 1, {}, attempts=2, backoff=MINUTE)
    (record,) = await claim(both.store)
    await finish(both.store, record, raised("once"))
    assert await queue.call("getDeduplicationJobId", "d") == first
    assert await add(queue, 2, {}) == first


@pytest.mark.parametrize("how", [{}, {"ttl": MINUTE}, {"keepLastIfActive": True}], ids=str)
@pytest.mark.parametrize("ending", ["delete", "cancel", "purge"])
async def test_who_is_deleted_or_cancelled_frees_the_id(both: Both, ending: str, how: Mapping[str, Any]) -> None:
    queue = await both.node.queue()
    first = await add(queue, 1, how)
    await both.store.jobs.enqueue([job("x", delay_ms=MINUTE)])
    if ending == "purge":
        assert await both.store.jobs.purge("q", [JobState.WAITING]) == 1
    elif ending == "delete":
        assert await both.store.jobs.delete([first]) == [True]
    else:
        assert await both.store.jobs.cancel([first]) == ["cancelled"]
    # A time goes on when its job ends, but not when it is deleted.
    kept = first if ending == "cancel" and "ttl" in how else None
    assert await queue.call("getDeduplicationJobId", "d") == kept


async def test_pruning_leaves_the_time_of_an_id_alone(both: Both) -> None:
    for queue in await both.queues("q"):
        await add(queue, 1, {"ttl": MINUTE})
    await both.run("q")
    assert await both.store.jobs.prune([PruneRule(JobState.COMPLETED, count=0)]) == 1
    assert picture(both.server, "bull", ("q",))["q:de:d"] == picture(both.server, "twin", ("q",))["q:de:d"]


def keyed(job_id: str, rule: UniqueRule | None = None, **said: Any) -> JobRecord:
    return job(job_id, unique_key="d", unique=rule or UniqueRule(), **said)


async def enqueue(store: RedisStore, record: JobRecord) -> Enqueued:
    (answer,) = await store.jobs.enqueue([record])
    return answer


@pytest.mark.parametrize("conflict", ["keep", "replace", "debounce"])
async def test_our_unique_key_is_a_deduplication_id(both: Both, server: Server, conflict: Any) -> None:
    queue, events = await both.node.queue(), await both.node.events()
    await enqueue(both.store, keyed("a", UniqueRule(on_conflict=conflict)))
    assert await queue.call("getDeduplicationJobId", "d") == "a"
    assert (await queue.job("a"))["deduplicationId"] == "d"
    assert await add(queue, 2, {}) == "a"
    (seen,) = await events.until_saw("deduplicated", "a")
    assert seen.said["deduplicationId"] == "d"
    (record,) = await claim(both.store)
    await finish(both.store, record, returned(1))
    assert await queue.call("getDeduplicationJobId", "d") is None
    assert await add(queue, 3, {}) not in ("a", "")
    assert left_behind(server) == []


async def test_node_runs_a_job_with_our_key_and_frees_it(both: Both) -> None:
    await enqueue(both.store, keyed("a"))
    worker = await both.node.worker()
    await worker.until_saw("completed", "a")
    assert await enqueue(both.store, keyed("b")) == Enqueued("b", created=True)


async def test_what_node_ends_and_obliterates_leaves_no_keys(both: Both, server: Server) -> None:
    brief = Keep(completed=KeepRule(count=0))
    await both.store.jobs.enqueue([job(f"kept{i}", unique_key=f"kept-{i}") for i in range(5)])
    await both.store.jobs.enqueue([job(f"brief{i}", unique_key=f"brief-{i}", keep=brief) for i in range(5)])
    worker = await both.node.worker()
    for kind in ("kept", "brief"):
        for i in range(5):
            await worker.until_saw("completed", f"{kind}{i}")
    await worker.close()
    await both.store.jobs.enqueue([job(f"late{i}", unique_key=f"late-{i}") for i in range(5)])
    assert len(keys_of_keys(server)) == 30 + 1
    await both.store.jobs.prune([])
    assert keys_of_keys(server) == sorted(
        [f"wf:shop:{kind}:late-{i}:v" for kind in ("hold", "key") for i in range(5)] + ["wf:shop:unique"]
    )
    queue = await both.node.queue()
    await queue.call("pause")
    await queue.call("obliterate", {"force": True})
    await both.store.jobs.prune([])
    assert keys_of_keys(server) == []


def keys_of_keys(server: Server) -> list[str]:
    """All that is there of unique keys."""
    kinds = ("hold:*", "key:*", "unique", "parked")
    return sorted(key for kind in kinds for key in texts(server.ask("KEYS", f"wf:shop:{kind}")))


async def test_a_window_is_a_time_to_live(both: Both, server: Server) -> None:
    queue = await both.node.queue()
    await enqueue(both.store, keyed("a", UniqueRule(window_ms=MINUTE)))
    (record,) = await claim(both.store)
    await finish(both.store, record, returned(1))
    left = server.ask("PTTL", "bull:q:de:d")
    assert isinstance(left, int)
    assert 0 < left <= MINUTE
    assert await add(queue, 2, {}) == "a"
    assert await enqueue(both.store, keyed("b")) == Enqueued("a", created=False)


@pytest.mark.parametrize("rule", [UniqueRule(), UniqueRule(window_ms=MINUTE), UniqueRule(until="started")], ids=str)
async def test_what_node_frees_is_free(both: Both, rule: UniqueRule) -> None:
    queue = await both.node.queue()
    await enqueue(both.store, keyed("a", rule))
    assert await queue.call("removeDeduplicationKey", "d") == 1
    assert await enqueue(both.store, keyed("b", rule)) == Enqueued("b", created=True)
    assert await queue.call("getDeduplicationJobId", "d") == "b"
    assert await queue.job("b", "removeDeduplicationKey") is True
    assert await enqueue(both.store, keyed("c", rule)) == Enqueued("c", created=True)


async def test_a_key_that_is_free_at_the_first_run_is_free_for_node_too(both: Both) -> None:
    queue = await both.node.queue()
    await enqueue(both.store, keyed("a", UniqueRule(until="started")))
    assert await queue.call("getDeduplicationJobId", "d") == "a"
    (record,) = await claim(both.store)
    assert await queue.call("getDeduplicationJobId", "d") is None
    second = await add(queue, 2, {})
    assert second != "a"
    await finish(both.store, record, returned(1))
    assert await queue.call("getDeduplicationJobId", "d") == second


@pytest.mark.parametrize("rule", [UniqueRule(), UniqueRule(on_conflict="replace"), UniqueRule(window_ms=9)], ids=str)
async def test_what_node_has_deduplicated_keeps_our_newcomers_out(both: Both, rule: UniqueRule) -> None:
    queue, events = await both.node.queue(), await both.node.events()
    first = await add(queue, 1, {})
    assert await enqueue(both.store, keyed("a", rule, data=2)) == Enqueued(first, created=False)
    (seen,) = await events.until_saw("deduplicated", first)
    assert seen.said == {"jobId": first, "deduplicationId": "d", "deduplicatedJobId": "a"}
    assert (await queue.job(first))["data"] == 1
    async with working(both.store) as _:
        await events.until_saw("completed", first)
    assert await enqueue(both.store, keyed("a", rule)) == Enqueued("a", created=True)


async def test_the_last_of_nodes_waits_for_the_end_of_ours(both: Both) -> None:
    queue = await both.node.queue()
    await enqueue(both.store, keyed("a"))
    (record,) = await claim(both.store)
    await add(queue, 2, {"keepLastIfActive": True})
    await add(queue, 3, {"keepLastIfActive": True})
    await finish(both.store, record, returned(1))
    (following,) = await claim(both.store)
    assert following.payload == b"3"
    assert await queue.call("getDeduplicationJobId", "d") == following.id


async def test_a_retry_of_ours_takes_the_id_again_and_respects_nodes(both: Both) -> None:
    queue = await both.node.queue()
    await enqueue(both.store, keyed("a"))
    (record,) = await claim(both.store)
    await finish(both.store, record, Ended(kind="failed", failure=raised("no").failure))
    second = await add(queue, 2, {})
    assert await both.store.jobs.retry(["a"]) == [False]
    assert await both.store.jobs.delete([second]) == [True]
    assert await both.store.jobs.retry(["a"]) == [True]
    assert await queue.call("getDeduplicationJobId", "d") == "a"
