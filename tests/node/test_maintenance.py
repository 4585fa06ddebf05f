"""Node's maintenance calls do what they say to our jobs and harm nothing else of ours."""

from __future__ import annotations

import pytest

from tests.node.node import NodeRoom
from tests.node.ours import claim, finish, job, raised, returned
from tests.stores.redis.servers import Server
from workfleet.model.fleet import LockGrant
from workfleet.model.jobs import JobCounts, RunOverrides, UniqueRule
from workfleet.model.limits import QueueLimits
from workfleet.model.schedules import ScheduleRecord
from workfleet.model.timing import Every
from workfleet.ports.jobs import JobQuery
from workfleet.stores.redis.store import RedisStore

pytestmark = pytest.mark.full
ONCE = RunOverrides(attempts=1)


async def fill(store: RedisStore) -> None:
    """One job of every kind that we have, schedules, locks and values."""
    await store.jobs.enqueue([job("done"), job("bad", run=ONCE), job("runs", group="g0")])
    for record in await claim(store, 3):
        if record.id != "runs":
            await finish(store, record, returned(1) if record.id == "done" else raised("no"))
    alone = UniqueRule("started", exclusive=True)
    await store.jobs.enqueue([job("first", unique_key="k", unique=alone)])
    (first,) = await claim(store)
    assert first.id == "first"
    await store.jobs.enqueue(
        [
            job("parked", unique_key="k", unique=alone),
            job("w"),
            job("p", priority=3),
            job("d", delay_ms=3_600_000),
            job("g1", group="g"),
            job("g2", group="g", priority=2),
        ]
    )
    await store.queues.set_limits({"q": QueueLimits(concurrency=9)})
    await store.keys.put_if_absent("value", b"1", 3_600_000)
    assert isinstance(await store.locks.acquire("lock", "me", 3_600_000), LockGrant)
    schedule = ScheduleRecord(name="s", timing=Every(3_600_000), fingerprint="f", job=job("s"))
    assert await store.schedules.put(schedule, replace=False)


async def rest(store: RedisStore) -> object:
    """What no maintenance of a queue may touch."""
    return (
        await store.keys.get("value"),
        [lock.name for lock in await store.locks.held()],
        [schedule.name for schedule in await store.schedules.all()],
    )


UNTOUCHED = (b"1", ["lock"], ["s"])
FILLED = JobCounts(waiting=2, prioritized=2, delayed=2, active=2, completed=1, failed=1)


async def counted(store: RedisStore) -> JobCounts:
    found = (await store.jobs.counts())["q"]
    return JobCounts(
        waiting=found.waiting,
        prioritized=found.prioritized,
        delayed=found.delayed,
        active=found.active,
        completed=found.completed,
        failed=found.failed,
    )


@pytest.mark.parametrize("lib", [5, 6])
async def test_orphans_are_removed_and_none_of_ours_is_one(
    node: NodeRoom, store: RedisStore, server: Server, lib: int
) -> None:
    queue = await node.queue(lib=lib)
    await fill(store)
    before = keys(server)
    assert await queue.call("removeOrphanedJobs") == 0
    assert keys(server) == before
    assert await counted(store) == FILLED
    assert await rest(store) == UNTOUCHED


async def test_events_are_trimmed(node: NodeRoom, store: RedisStore) -> None:
    queue = await node.queue()
    await fill(store)
    await queue.call("trimEvents", 0)
    assert await counted(store) == FILLED


async def test_failed_ones_are_retried(node: NodeRoom, store: RedisStore) -> None:
    queue = await node.queue()
    await fill(store)
    await queue.call("retryJobs", {"state": "failed"})
    await until_run(store, "bad", "w", "p", "g1", "g2")
    assert await rest(store) == UNTOUCHED


async def test_delayed_ones_are_promoted_and_none_that_waits_for_something_else_runs_too_soon(
    node: NodeRoom, store: RedisStore
) -> None:
    queue = await node.queue()
    await fill(store)
    await queue.call("promoteJobs")
    listed = [record.id for record in await store.jobs.find(JobQuery(queue="q"))]
    assert len(listed) == len(set(listed)) == 10
    ran = await run_all(store)
    assert sorted(ran) == ["d", "g1", "g2", "p", "w"]
    assert await rest(store) == UNTOUCHED


async def test_drained_of_what_waits(node: NodeRoom, store: RedisStore) -> None:
    queue = await node.queue()
    await fill(store)
    await queue.call("drain", True)
    counts = await counted(store)
    assert (counts.active, counts.completed, counts.failed) == (2, 1, 1)
    assert (counts.waiting, counts.prioritized, counts.delayed) == (0, 0, 0)
    assert await rest(store) == UNTOUCHED
    # Keys of what was drained are free, and new jobs run.
    await store.jobs.enqueue([job("new"), job("g3", group="g")])
    assert sorted(await run_all(store)) == ["g3", "new"]


@pytest.mark.parametrize(("kind", "left"), [("completed", (0, 1)), ("failed", (1, 0))])
async def test_cleaned(node: NodeRoom, store: RedisStore, kind: str, left: tuple[int, int]) -> None:
    queue = await node.queue()
    await fill(store)
    assert len(await queue.call("clean", 0, 100, kind)) == 1
    counts = await counted(store)
    assert (counts.completed, counts.failed, counts.active) == (*left, 2)
    assert await rest(store) == UNTOUCHED
    await until_run(store, "w", "p", "g1", "g2")


async def test_obliterated_and_used_again(node: NodeRoom, store: RedisStore, server: Server) -> None:
    queue = await node.queue()
    await fill(store)
    await queue.call("pause")
    await queue.call("obliterate", {"force": True})
    assert await rest(store) == UNTOUCHED
    await queue.call("resume")
    await store.jobs.enqueue([job("new", unique_key="k"), job("g9", group="g")])
    assert sorted(await run_all(store)) == ["g9", "new"]
    counts = await counted(store)
    assert (counts.active, counts.waiting, counts.delayed) == (0, 0, 0)


def keys(server: Server) -> set[str]:
    found = server.ask("KEYS", "*")
    assert isinstance(found, list)
    return {key.decode() for key in found} - {"bull:q:marker"}


async def run_all(store: RedisStore) -> list[str]:
    """Run what is ready until nothing is. The ids."""
    ran: list[str] = []
    while records := await claim(store, 9):
        for record in records:
            ran.append(record.id)
            await finish(store, record, returned(1))
    return ran


async def until_run(store: RedisStore, *expected: str) -> None:
    assert sorted(await run_all(store)) == sorted(expected)
