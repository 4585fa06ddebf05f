"""A stored job that somebody has damaged ends as one that cannot be read; it stops nobody else's work."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import pytest_asyncio

from tests.stores.redis.servers import Server
from workfleet.clock import SystemClock
from workfleet.model.jobs import FINISHED, JobRecord, JobState
from workfleet.model.limits import QueueLimits
from workfleet.ports.jobs import ClaimRequest, JobQuery, TakeOver, Want
from workfleet.stores.redis.scripts import Script
from workfleet.stores.redis.store import RedisStore
from workfleet.testing.contracts.harness import claim, finish, ids, job, jobs, state, stored

FIELDS = (
    "name data opts timestamp delay priority processedOn finishedOn atm ats stc wf wfd progress parentKey parent deid "
    "stacktrace defa pb rjk nrjid"
).split()
DEEP = "[" * 5_000 + "]" * 5_000
"""Deeper than Python, msgspec and Lua's `cjson` read."""
VALUES = [
    "", "abc", "-1", "1e400", "99999999999999999999", "nan", "{", "[]", "[[]]", "null", "7", '"x"', '{"a":[1]}',
    '{"v":1,"n":1,"keepc":7,"keepf":[],"due":"x","by":[[1]],"history":[1],"exp":"x","hk":[],"spec":"{","key":"k"}',
    '{"v":1,"n":1e300,"due":1e300}', '{"attempts":"many","backoff":{"type":7},"removeOnComplete":[]}',
    DEEP, f'{{"a":{DEEP}}}', json.dumps({"tm": f'{{"x":{DEEP}}}'}), json.dumps({"tm": "\ud800"}),
]  # fmt: skip


@pytest_asyncio.fixture
async def store(server: Server) -> AsyncIterator[RedisStore]:
    opened = await RedisStore.open(server.url, app="shop", clock=SystemClock())
    yield opened
    await opened.close()


async def looked_at(store: RedisStore, job_id: str) -> None:
    """Everybody who looks at jobs can."""
    assert job_id in ids(await store.jobs.find(JobQuery(queue="q", text=""))).split()
    await store.jobs.get([job_id])
    await store.jobs.children(job_id)
    await store.jobs.counts()
    await store.jobs.next_due_ms(["q"])


async def run_all(store: RedisStore) -> set[str]:
    """Claim and complete until there is no more. Who was given out."""
    given: set[str] = set()
    while taken := await claim(store, 10):
        given |= {each.id for each in taken}
        await finish(store, taken)
    return given


async def operated(store: RedisStore, server: Server, job_id: str) -> None:
    """What an operator and the pruning do to it; in the end it is gone."""
    await store.jobs.retry([job_id])
    await store.jobs.promote([job_id])
    await store.jobs.cancel([job_id])
    await run_all(store)
    await store.jobs.prune([])
    if job_id:
        await store.jobs.delete([job_id])


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("kind", ["waiting", "delayed", "prioritized", "grouped", "Node's"])
async def test_a_damaged_field(kind: str, value: str, store: RedisStore, server: Server) -> None:
    said = {"delayed": {"delay_ms": 1}, "prioritized": {"priority": 3}, "grouped": {"group": "g"}}.get(kind, {})
    for field in FIELDS:
        server.ask("FLUSHALL")
        await store.jobs.enqueue([job("early"), job("bad", unique_key="k", **said), job("late")])
        if kind == "Node's":
            server.ask("HDEL", "shop:q:bad", "wf")
        server.ask("HSET", "shop:q:bad", field, value)
        await looked_at(store, "bad")
        assert {"early", "late"} <= await run_all(store), field
        await operated(store, server, "bad")
        await store.jobs.enqueue([job("bad", unique_key="k"), job("more")])
        assert "more" in await run_all(store), field


@pytest.mark.parametrize(
    "metadata", [7, None, [], "no carrier", f'{{"x":{DEEP}}}', json.dumps({"traceparent": "x" * 1_000_000})]
)
async def test_no_job_fails_by_the_telemetry_of_its_producer(
    metadata: object, store: RedisStore, server: Server
) -> None:
    await store.jobs.enqueue(jobs("theirs"))
    server.ask("HDEL", "shop:q:theirs", "wf")
    server.ask("HSET", "shop:q:theirs", "opts", json.dumps({"tm": metadata}))
    (taken,) = await claim(store)
    assert (taken.id, taken.outcome, taken.trace) == ("theirs", None, None)


@pytest.mark.parametrize("value", VALUES)
async def test_a_damaged_field_of_a_job_whose_worker_died(value: str, store: RedisStore, server: Server) -> None:
    for field in FIELDS:
        server.ask("FLUSHALL")
        await store.jobs.enqueue(jobs("early bad late"))
        assert len(await claim(store, 3, worker="dead")) == 3
        server.ask("HSET", "shop:q:bad", field, value)
        taken = await store.jobs.take_over(TakeOver("w2", "t", 30_000, 10, ("dead",)))
        assert {"early", "late"} <= {each.id for each in taken}, field
        await finish(store, taken)
        await looked_at(store, "bad")
        assert (await stored(store, "bad")).state is not JobState.ACTIVE, field
        await operated(store, server, "bad")


async def test_it_ends_as_one_that_cannot_be_read(store: RedisStore, server: Server) -> None:
    await store.jobs.enqueue(jobs("bad"))
    server.ask("HSET", "shop:q:bad", "timestamp", "abc")
    assert await claim(store) == []
    bad: JobRecord = await stored(store, "bad")
    assert (bad.state in FINISHED, bad.outcome) == (True, "undecodable")
    assert bad.failure is not None
    assert "one of its numbers is none" in bad.failure.message


def garble(server: Server, names: str) -> None:
    for name in names.split():
        server.ask("HSET", f"shop:q:{name}", "timestamp", "abc")


async def test_many_that_cannot_be_read_keep_no_place_of_a_claim(store: RedisStore, server: Server) -> None:
    bad = " ".join(f"bad{n}" for n in range(25))
    await store.jobs.enqueue(jobs(bad))
    await store.jobs.enqueue([*jobs("g1 g2 g3 g4 g5"), job("later", delay_ms=60_000), *jobs("r1 r2 r3", queue="r")])
    garble(server, bad)
    asked = ClaimRequest("w", "t1", 60_000, (Want("q", 10, 3), Want("r", 3, 1)), total=6)
    given = await store.jobs.claim(asked)
    assert ids(given) == "r1 g1 g2 g3 g4 g5"
    assert [each.token for each in given] == ["t1"] * 6
    assert ids(await store.jobs.claim(asked)) == "r1 g1 g2 g3 g4 g5", "a repeat"
    counts = await store.jobs.counts()
    assert (counts["q"].failed, counts["q"].active, counts["r"].active) == (25, 5, 1)
    later = await stored(store, "later")
    assert await store.jobs.next_due_ms(["q", "r"]) in (None, later.due_ms)


async def test_a_claim_that_goes_on_after_them_may_be_sent_twice(store: RedisStore, server: Server) -> None:
    """The script that takes the next ones knows by itself what its first answer was, lost or not."""
    await store.jobs.enqueue(jobs("bad g1 g2 g3 g4"))
    garble(server, "bad")
    ask, cycles = store.jobs._running._asking.ask, 0

    async def twice(script: Script, asked: Mapping[str, Any]) -> Any:
        nonlocal cycles
        cycles += script is store.jobs._running._cycle
        if cycles == 2:
            await ask(script, asked)
        return await ask(script, asked)

    store.jobs._running._asking.ask = twice  # type: ignore[method-assign]
    given = await claim(store, 3)
    assert (ids(given), cycles) == ("g1 g2 g3", 2)
    assert await state(store, "g4") == "waiting"
    await finish(store, given)
    assert await state(store, "bad") == "failed"


async def test_very_many_of_them_are_failed_in_several_claims(store: RedisStore, server: Server) -> None:
    """So that nobody waits for long; who claims them is woken, and goes on at once."""
    bad = " ".join(f"bad{n}" for n in range(1_005))
    await store.jobs.enqueue(jobs(f"{bad} good"))
    garble(server, bad)
    assert await claim(store, 10) == []
    assert (await store.jobs.counts())["q"].failed == 1_000
    assert await store.jobs.wait(["q"], 0)
    assert ids(await claim(store, 10)) == "good"


async def test_they_keep_no_slot_of_a_limit(store: RedisStore, server: Server) -> None:
    await store.queues.set_limits({"q": QueueLimits(concurrency=2)})
    await store.jobs.enqueue(jobs("b1 b2 b3 g1 g2 g3"))
    garble(server, "b1 b2 b3")
    assert ids(await claim(store, 10)) == "g1 g2"
    assert await claim(store, 10) == []


@pytest.mark.parametrize("made", [("SET", "x"), ("RPUSH", "x"), ("SADD", "x")])
async def test_the_key_of_a_job_is_something_else(made: tuple[str, str], store: RedisStore, server: Server) -> None:
    """There is no such job then."""
    await store.jobs.enqueue(jobs("early bad late"))
    server.ask("DEL", "shop:q:bad")
    server.ask(made[0], "shop:q:bad", made[1])
    await store.jobs.find(JobQuery(queue="q"))
    assert await store.jobs.get(["bad"]) == [None]
    assert await run_all(store) == {"early", "late"}
    assert await store.jobs.delete(["bad"]) == [False]
    assert await state(store, "late") == "completed"
    assert server.ask("LLEN", "shop:q:active") == 0


@pytest.mark.parametrize("claimed", [True, False])
async def test_a_job_that_was_deleted_while_it_ran_holds_no_slot(
    claimed: bool, store: RedisStore, server: Server
) -> None:
    await store.queues.set_limits({"q": QueueLimits(concurrency=1)})
    await store.jobs.enqueue(jobs("bad late"))
    if claimed:
        assert ids(await claim(store, lease_ms=1)) == "bad"
    else:
        server.ask("RPOPLPUSH", "shop:q:wait", "shop:q:active")
    server.ask("DEL", "shop:q:bad")
    async with asyncio.timeout(30):
        while not (taken := await claim(store)):
            assert await store.jobs.take_over(TakeOver("w2", "t", 30_000)) == []
            await asyncio.sleep(0.01)
    assert ids(taken) == "late"
    await finish(store, taken)
    assert server.ask("LLEN", "shop:q:active") == 0
    assert server.ask("EXISTS", "shop:q:wf:queue:claims") == 0
