"""The limits of a queue that ours and Node's workers share: both count in BullMQ's window, and none undoes what the
other has said."""

from __future__ import annotations

import pytest

from tests.node.node import NodeRoom, Opened
from tests.node.ours import claim, job
from tests.stores.redis.servers import Server
from workfleet.ids import new_token
from workfleet.model.limits import QueueLimits, Rate
from workfleet.stores.redis.store import RedisStore

pytestmark = pytest.mark.full
LONG_MS = 600_000
"""A window that no test outlasts."""
FOUR = QueueLimits(rate=Rate(4, LONG_MS))


async def theirs(worker: Opened, tries: int) -> int:
    """How many jobs Node's worker gets."""
    given = [await worker.call("getNextJob", new_token(), {"block": False}) for _ in range(tries)]
    return sum(each is not None for each in given)


@pytest.mark.parametrize("first", ["ours", "theirs"])
async def test_both_together_start_no_more_than_the_rate(
    node: NodeRoom, store: RedisStore, server: Server, first: str
) -> None:
    await store.queues.set_limits({"q": FOUR})
    worker = await node.worker(work=False)
    await store.jobs.enqueue([job(f"j{number}") for number in range(12)])
    if first == "ours":
        given = [len(await claim(store, 3)), await theirs(worker, 4), len(await claim(store, 4))]
    else:
        given = [await theirs(worker, 3), len(await claim(store, 4)), await theirs(worker, 4)]
    assert given == [3, 1, 0]
    left = server.ask("PTTL", "bull:q:limiter")
    assert isinstance(left, int)
    assert LONG_MS - 60_000 < left <= LONG_MS
    due = await store.jobs.next_due_ms(["q"])
    assert due is not None
    assert abs(due - (await store.now_ms() + left)) < 60_000


async def test_a_window_that_is_over_is_counted_anew(node: NodeRoom, store: RedisStore, server: Server) -> None:
    await store.queues.set_limits({"q": FOUR})
    worker = await node.worker(work=False)
    await store.jobs.enqueue([job(f"j{number}") for number in range(12)])
    assert len(await claim(store, 4)) == 4
    server.ask("PEXPIRE", "bull:q:limiter", 0)
    assert await theirs(worker, 6) == 4


async def test_another_window_forgets_the_starts_but_no_pause_of_nodes(
    node: NodeRoom, store: RedisStore, server: Server
) -> None:
    queue = await node.queue()
    await store.queues.set_limits({"q": FOUR})
    await store.jobs.enqueue([job("a"), job("b")])
    await claim(store)
    await store.queues.set_limits({"q": FOUR})
    assert server.ask("GET", "bull:q:limiter") == b"1"
    await store.queues.set_limits({"q": QueueLimits(rate=Rate(4, 1_000))})
    assert server.ask("EXISTS", "bull:q:limiter") == 0
    await queue.call("rateLimit", LONG_MS)
    await store.queues.set_limits({"q": FOUR})
    assert await claim(store) == []


async def test_without_a_rate_nothing_is_counted(store: RedisStore, server: Server) -> None:
    await store.jobs.enqueue([job("a")])
    await claim(store)
    assert server.ask("EXISTS", "bull:q:limiter") == 0


async def limits(queue: Opened) -> list[object]:
    return [await queue.call("getGlobalConcurrency"), await queue.call("getGlobalRateLimit")]


async def test_what_node_has_said_outlives_starts_of_workers_that_say_nothing(
    node: NodeRoom, store: RedisStore
) -> None:
    queue = await node.queue()
    await queue.call("setGlobalConcurrency", 2)
    await queue.call("setGlobalRateLimit", 9, LONG_MS)
    for _ in range(2):
        await store.queues.set_limits({"q": QueueLimits()})
        assert await limits(queue) == [2, {"max": 9, "duration": LONG_MS}]
    record = (await store.queues.all())["q"]
    assert record.limits == QueueLimits(concurrency=2, rate=Rate(9, LONG_MS))
    await store.jobs.enqueue([job(f"j{number}") for number in range(4)])
    assert len(await claim(store, 4)) == 2


async def test_what_we_have_said_goes_with_our_code_unless_node_says_otherwise(
    node: NodeRoom, store: RedisStore
) -> None:
    queue = await node.queue()
    await store.queues.set_limits({"q": QueueLimits(concurrency=5, rate=Rate(7, LONG_MS))})
    assert await limits(queue) == [5, {"max": 7, "duration": LONG_MS}]
    await store.queues.set_limits({"q": QueueLimits(rate=Rate(8, LONG_MS))})
    assert await limits(queue) == [None, {"max": 8, "duration": LONG_MS}]
    await queue.call("setGlobalConcurrency", 3)
    await queue.call("setGlobalRateLimit", 6, LONG_MS)
    await store.queues.set_limits({"q": QueueLimits()})
    assert await limits(queue) == [3, {"max": 6, "duration": LONG_MS}]
    await store.queues.set_limits({"q": QueueLimits(concurrency=4)})
    assert await limits(queue) == [4, {"max": 6, "duration": LONG_MS}]
    await store.queues.set_limits({"q": QueueLimits()})
    assert await limits(queue) == [None, {"max": 6, "duration": LONG_MS}]
