"""Node's maintenance calls while our workers run: nothing is lost or stuck, and the workers go on."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from tests.node.node import NodeRoom, Opened
from tests.node.ours import job, until
from tests.queues.rig import Rig
from tests.stores.redis.servers import Server
from workfleet.clock import SystemClock
from workfleet.events import ClaimLost, JobSettled
from workfleet.model.jobs import JobRecord, RunOverrides, UniqueRule
from workfleet.model.policy import fixed
from workfleet.stores.redis.store import RedisStore

pytestmark = pytest.mark.full
WAVES, EACH = 12, 24
TWICE = RunOverrides(attempts=2, backoff=fixed("20ms"))
ONCE = RunOverrides(attempts=1)


def wave(number: int) -> list[JobRecord]:
    """Jobs of every kind, and what they do."""

    def one(at: int) -> JobRecord:
        job_id = f"{number}-{at}"
        kinds: tuple[dict[str, Any], ...] = (
            {},
            {"priority": 1 + at % 3},
            {"delay_ms": 30},
            {"group": f"g{at % 3}"},
            {"name": "flaky", "run": TWICE},
            {"name": "bad", "run": ONCE},
            {"lifo": True},
            {"unique_key": job_id, "unique": UniqueRule("finished")},
        )
        return job(job_id, **kinds[at % len(kinds)])

    return [one(at) for at in range(EACH)]


async def keep_house(queue: Opened, rounds: Counter[str], enough: asyncio.Event) -> None:
    calls: tuple[tuple[str, tuple[Any, ...]], ...] = (
        ("removeOrphanedJobs", ()),
        ("trimEvents", (0,)),
        ("clean", (0, 1_000, "completed")),
        ("clean", (0, 1_000, "active")),
        ("retryJobs", ({"state": "failed", "count": 5},)),
        ("promoteJobs", ()),
    )
    while not enough.is_set():
        for method, args in calls:
            await queue.call(method, *args)
            rounds[method] += 1


async def test_a_fleet_works_on_while_node_keeps_house(node: NodeRoom, store: RedisStore, server: Server) -> None:
    second = await RedisStore.open(server.url, app="shop", clock=SystemClock(), prefix="bull")
    queue, enough = await node.queue(), asyncio.Event()
    runs, done, rounds = Counter[str](), Counter[str](), Counter[str]()

    async def ok(run: Any) -> None:
        runs[run.id] += 1
        await asyncio.sleep(0.005)
        done[run.id] += 1

    async def again(run: Any) -> None:
        runs[run.id] += 1
        if runs[run.id] == 1:
            raise ValueError("the first time")
        done[run.id] += 1

    rigs = [Rig(each, concurrency={"q": 6}, worker=f"w{at}", poll_ms=500) for at, each in enumerate((store, second))]
    for rig in rigs:
        rig.on(ok)
        rig.on(again, name="flaky")
        rig.on(again, name="bad")
    async with rigs[0], rigs[1]:
        houses = [asyncio.create_task(keep_house(queue, rounds, enough)) for _ in range(2)]
        for number in range(WAVES):
            await store.jobs.enqueue(wave(number))
            await asyncio.sleep(0.05)
        await until(lambda: len(done) == WAVES * EACH, "the end of all jobs")
        enough.set()
        await asyncio.gather(*houses)
        await until(lambda: not any(rig.exchange.active for rig in rigs), "the last settlement")
    assert {job_id: count for job_id, count in done.items() if count != 1} == {}
    assert not any(rig.told(ClaimLost) for rig in rigs)
    assert min(rounds.values()) >= 2
    left = (await store.jobs.counts())["q"]
    assert (left.waiting, left.prioritized, left.delayed, left.active, left.failed) == (0, 0, 0, 0, 0)
    assert server.ask("HLEN", "bull:q:wf:queue:claims") == 0
    await queue.call("clean", 0, 1_000, "completed")
    assert await queue.call("removeOrphanedJobs") == 0
    found = server.ask("KEYS", "bull:q:*")
    assert isinstance(found, list)
    keys = {key.decode().removeprefix("bull:q:") for key in found}
    assert not {
        key for key in keys if key.partition(":")[0] in {f"{n}-{at}" for n in range(WAVES) for at in range(EACH)}
    }
    await second.close()


@pytest.mark.parametrize("how", ["drain", "obliterate"])
async def test_what_is_emptied_under_a_worker_is_let_go_and_the_next_jobs_run(
    node: NodeRoom, store: RedisStore, how: str
) -> None:
    queue, release, ran = await node.queue(), asyncio.Event(), list[str]()

    async def hold(run: Any) -> str:
        ran.append(run.id)
        await release.wait()
        return "done"

    async def ok(run: Any) -> None:
        ran.append(run.id)

    rig = Rig(store, concurrency={"q": 3}, poll_ms=500)
    rig.on(hold)
    rig.on(ok)
    async with rig:
        await store.jobs.enqueue([job(f"h{at}", "hold") for at in range(3)])
        await until(lambda: len(ran) == 3, "the runs")
        await store.jobs.enqueue([job("w"), job("p", priority=1), job("d", delay_ms=60_000), job("g", group="g")])
        if how == "drain":
            await queue.call("drain", True)
        else:
            await queue.call("pause")
            await queue.call("obliterate", {"force": True})
            await queue.call("resume")
        release.set()
        if how == "drain":
            await until(lambda: len(rig.told(JobSettled)) == 3, "the ends")
            assert rig.told(ClaimLost) == []
        else:
            await until(lambda: len(rig.told(ClaimLost)) == 3, "the losses")
            assert rig.told(JobSettled) == []
        await store.jobs.enqueue([job("new"), job("next", group="g")])
        await until(lambda: len(ran) == 5, "the next jobs")
    assert sorted(ran[3:]) == ["new", "next"]
    left = (await store.jobs.counts())["q"]
    assert (left.active, left.waiting, left.delayed) == (0, 0, 0)
